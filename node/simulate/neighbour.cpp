#include "node/simulate/neighbour.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace::simulation {

namespace {

CrossingTimes earlier_of(CrossingTimes times, int64_t time) { return {std::min(times[0], time), std::min(times[1], time)}; }

}  // namespace

// What the other side may do first, of its own accord or because of what it has yet to read.
int64_t Neighbour::answered(Crosses what) const {
  int64_t earliest = std::min(time_of(heard_.promise, what), earliest_kept_);
  for (const Unknown& unknown : unknown_) earliest = std::min(earliest, unknown.earliest);
  return earliest;
}

void Neighbour::keep(const Crossing& crossing) {
  kept_.push_back(crossing);
  earliest_kept_ = std::min(earliest_kept_, crossing.time);
}

bool Neighbour::send(const News& news) {
  do {
    if (!transport_.can_send(out_flow_)) return false;
    const size_t count = std::min(kept_.size(), kCrossingsOfMessage);
    const std::span<std::byte> payload = transport_.begin_send(out_flow_);
    // What is left for the next message may come before the promise.
    int64_t earliest = kNeverTime;
    for (size_t i = 0; i < count; ++i) earliest = std::min(earliest, kept_[i].time);
    int64_t rest = kNeverTime;
    for (size_t i = count; i < kept_.size(); ++i) rest = std::min(rest, kept_[i].time);
    const int64_t left_out = rest == kNeverTime ? kNeverTime : rest - latency_;
    const News told{earlier_of(news.promise, left_out), earlier_of(news.quiet, left_out), news.waits, news.done};
    const Header header{told, read_, static_cast<int64_t>(count)};
    std::memcpy(payload.data(), &header, sizeof(header));
    if (count > 0) std::memcpy(payload.data() + sizeof(header), kept_.data(), count * sizeof(Crossing));
    transport_.commit_send(out_flow_, {.index = sent_}, sizeof(header) + count * sizeof(Crossing));
    if (earliest != kNeverTime) unknown_.push_back({sent_, earliest});
    ++sent_;
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
    earliest_kept_ = rest;
    told_ = told;
    owes_ = false;
  } while (!kept_.empty());
  return true;
}

bool Neighbour::receive(Engine& engine) {
  bool some = false;
  while (transport_.has_message(in_flow_)) {
    const Message message = transport_.begin_receive(in_flow_);
    Header header;
    std::memcpy(&header, message.payload.data(), sizeof(header));
    for (int64_t i = 0; i < header.crossings; ++i) {
      Crossing crossing;
      std::memcpy(&crossing, message.payload.data() + sizeof(header) + to_size(i) * sizeof(crossing), sizeof(crossing));
      engine.accept(crossing);
    }
    transport_.release(in_flow_);
    ++read_;
    owes_ = owes_ || header.crossings > 0;
    heard_ = header.news;
    while (!unknown_.empty() && unknown_.front().message < header.acknowledged) unknown_.pop_front();
    some = true;
  }
  return some;
}

void Neighbour::add_interests(std::vector<Interest>& interests, bool blocked) const {
  interests.push_back({.want = Want::kMessage, .flow = in_flow_, .id = {.index = read_}});
  if (blocked) interests.push_back({.want = Want::kCredit, .flow = out_flow_, .id = {.index = sent_}});
}

}  // namespace millrace::simulation
