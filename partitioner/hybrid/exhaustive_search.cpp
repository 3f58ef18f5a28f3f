#include "partitioner/hybrid/exhaustive_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "core/base/index.h"

namespace millrace {
namespace {

// Rings beyond these are not small.
constexpr int64_t kMostUnits = 256;
constexpr int64_t kMostDevices = 8;
constexpr size_t kMostCombinations = 512;  // of a place
constexpr int64_t kMostWeighed = 400'000;  // labels weighed: some tenths of a second
constexpr size_t kMostSizes = 4;

using Counts = std::array<int64_t, kMostSizes>;  // of elements, by size

}  // namespace

// What is on its way upstream behind a place, and how it came to that.
struct ExhaustiveSearch::Label {
  Counts sent{};
  Counts kept{};
  size_t next_place = 0, next_label = 0;

  int64_t elements() const {
    int64_t all = 0;
    for (const int64_t count : sent) all += count;
    return all;
  }
  bool covers(const Label& other) const {
    for (size_t size = 0; size < kMostSizes; ++size)
      if (sent[size] > other.sent[size]) return false;
    return true;
  }
};

struct ExhaustiveSearch::Walk {
  std::vector<std::vector<int64_t>> places;             // before every device, and after the last
  std::vector<std::vector<std::vector<Label>>> labels;  // the same
  std::vector<std::pair<std::string, double>> sizes;    // the memory, and the storage of an element there
  int64_t work = 0;

  // Nothing where there are too many.
  std::optional<size_t> size_of(const std::string& memory, double unit) {
    for (size_t size = 0; size < sizes.size(); ++size)
      if (sizes[size].first == memory && is_unit(sizes[size].second, unit)) return size;
    if (sizes.size() == kMostSizes) return std::nullopt;
    sizes.emplace_back(memory, unit);
    return sizes.size() - 1;
  }
  // False where a place has more labels than are kept.
  bool add(const Label& label, std::vector<Label>& known) const {
    if (std::ranges::any_of(known, [&](const Label& other) { return other.covers(label); })) return true;
    std::erase_if(known, [&](const Label& other) { return label.covers(other); });
    known.push_back(label);
    return known.size() <= kMostCombinations;
  }
};

ExhaustiveSearch::ExhaustiveSearch(const SegmentLoads& segments, const CutLoads& cuts, std::span<const Link> links, const CutSearch& search,
                                   HomeTraffic traffic, bool allow_empty, Stored stored)
    : segments_(&segments),
      cuts_(&cuts),
      links_(links),
      search_(&search),
      traffic_(traffic),
      allow_empty_(allow_empty),
      stored_(std::move(stored)) {}

bool ExhaustiveSearch::is_small() const {
  const Chain& chain = segments_->chain();
  if (chain.end() > kMostUnits || segments_->devices() > kMostDevices) return false;
  for (int64_t d = 0; d < segments_->devices(); ++d)
    for (int64_t g = 0; g < chain.groups(); ++g)
      if (segments_->chooses(d, g)) return false;
  return true;
}

bool ExhaustiveSearch::carries(int64_t link, int64_t position, const Label& label, double period) const {
  const int64_t elements = label.elements();
  if (elements > 0 && !traffic_.allowed) return false;
  return seconds_on(fast_item(links_, link), traffic_.with(cuts_->at(position), elements)) <= period;
}

// False where it gives up.
bool ExhaustiveSearch::pass_device(int64_t device, const Periods& periods, Walk& walk) const {
  const auto d = to_size(device);
  const Chain& chain = segments_->chain();
  walk.labels[d].assign(walk.places[d].size(), {});
  for (size_t start = 0; start < walk.places[d].size(); ++start) {
    const int64_t from = walk.places[d][start];
    std::vector<Label>& labels = walk.labels[d][start];
    for (size_t end = 0; end < walk.places[d + 1].size(); ++end) {
      const int64_t to = walk.places[d + 1][end];
      if (to < from || walk.labels[d + 1][end].empty()) continue;
      const bool boundary = from == chain.end() || from == chain.begin_of(chain.group_at(from));
      if (to == from ? !allow_empty_ || !boundary : !segments_->fits(device, from, to, periods.compute)) continue;
      HomeProblem own;
      stored_(device, from, to, periods.compute, own);
      const HomeProblem::Device& storage = own.devices.front();
      if (storage.fixed > storage.capacity) continue;
      Counts used{};
      for (const HomeProblem::Weights& weights : own.weights) {
        if (weights.elements == 0) continue;
        const std::optional<size_t> size = walk.size_of(storage.memory, weights.storage / static_cast<double>(weights.elements));
        if (!size) return false;
        used[*size] += weights.elements;
      }
      // The ways to fill the device's room, one size after the other; of the last as many as fit.
      const auto fill = [&](const auto& self, Label& label, size_t size, double room) -> bool {
        while (size < walk.sizes.size() && walk.sizes[size].first != storage.memory) ++size;
        if (size >= walk.sizes.size()) {
          ++walk.work;
          if (device == 0 ? label.elements() > 0 : !carries(device - 1, from, label, periods.link)) return true;
          return walk.work <= kMostWeighed && walk.add(label, labels);
        }
        size_t after = size + 1;
        while (after < walk.sizes.size() && walk.sizes[after].first != storage.memory) ++after;
        const double unit = walk.sizes[size].second;
        const int64_t all = label.sent[size];
        int64_t most = all;
        if (unit > 0) most = std::clamp(static_cast<int64_t>(std::floor(std::max(room, 0.0) / unit)), int64_t{0}, all);
        for (int64_t kept = after < walk.sizes.size() ? 0 : most; kept <= most; ++kept) {
          label.kept[size] = kept;
          label.sent[size] = all - kept;
          if (!self(self, label, after, room - unit * static_cast<double>(kept))) return false;
        }
        label.sent[size] = all;
        return true;
      };
      for (size_t l = 0; l < walk.labels[d + 1][end].size(); ++l) {
        Label label{walk.labels[d + 1][end][l].sent, {}, end, l};
        for (size_t size = 0; size < kMostSizes; ++size) label.sent[size] += used[size];
        if (!fill(fill, label, 0, storage.capacity - storage.fixed)) return false;
      }
    }
  }
  return true;
}

std::optional<ExhaustiveAnswer> ExhaustiveSearch::at(const Periods& periods) const {
  if (!is_small()) return std::nullopt;
  const int64_t devices = segments_->devices();
  const std::vector<PositionSet> ends = search_->ends_at(periods, {});
  if (static_cast<int64_t>(ends.size()) != devices) return ExhaustiveAnswer{};
  Walk walk;
  walk.places = {{0}};
  for (const PositionSet& set : ends) {
    std::vector<int64_t>& places = walk.places.emplace_back();
    for (const Progression& run : set)
      for (int64_t position = run.begin; position <= run.end; position += run.step) places.push_back(position);
  }
  walk.labels.resize(walk.places.size());
  walk.labels.back() = std::vector<std::vector<Label>>(walk.places.back().size(), std::vector<Label>(1));
  for (int64_t d = devices; d-- > 0;)
    if (!pass_device(d, periods, walk)) return std::nullopt;
  ExhaustiveAnswer answer;
  if (walk.labels.front().front().empty()) return answer;
  answer.possible = true;
  const Label* label = &walk.labels.front().front().front();
  for (size_t d = 0;; ++d) {
    KeptWeights& kept = answer.kept.emplace_back();
    for (size_t size = 0; size < walk.sizes.size(); ++size)
      kept.push_back({walk.sizes[size].first, walk.sizes[size].second, label->kept[size]});
    if (d + 1 == to_size(devices)) break;
    answer.cuts.push_back(walk.places[d + 1][label->next_place]);
    label = &walk.labels[d + 1][label->next_place][label->next_label];
  }
  return answer;
}

}  // namespace millrace
