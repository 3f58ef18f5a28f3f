#include "transport/streams/column_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {

FlowTable ColumnSum::flows(int64_t ranks, size_t piece_bytes, int64_t credits) {
  MILLRACE_CHECK(piece_bytes >= sizeof(double) && piece_bytes % sizeof(double) == 0, "pieces of {} bytes", piece_bytes);
  FlowTable table;
  table.devices = ranks;
  for (int64_t r = 0; r + 1 < ranks; ++r) {
    table.flows.push_back(
        {.stream = Stream::kGradient, .tensor = "sum", .from = r, .to = r + 1, .most_bytes = piece_bytes, .credits = credits});
    table.flows.push_back(
        {.stream = Stream::kGradient, .tensor = "total", .from = r + 1, .to = r, .most_bytes = piece_bytes, .credits = credits});
  }
  check(table);
  return table;
}

ColumnSum::ColumnSum(Transport& transport) : transport_(transport) {
  MILLRACE_CHECK(
      static_cast<int64_t>(transport.table().flows.size()) == 2 * (transport.ranks() - 1) && transport.table().devices == transport.ranks(),
      "a column of {} ranks with {} flows", transport.ranks(), transport.table().flows.size());
}

template <typename T>
void ColumnSum::start(std::span<T> values, int64_t index) {
  MILLRACE_CHECK(done(), "a sum is under way");
  if constexpr (std::is_same_v<T, float>) {
    narrow_ = values;
    wide_ = {};
  } else {
    wide_ = values;
    narrow_ = {};
  }
  index_ = index;
  const size_t most = transport_.table().flows.empty() ? values.size() : transport_.table().flows.front().most_bytes / sizeof(T);
  const bool alone = transport_.ranks() == 1 || values.empty();
  pieces_ = alone ? 0 : static_cast<int32_t>((values.size() + most - 1) / most);
  up_ = down_ = 0;
}
template void ColumnSum::start(std::span<float> values, int64_t index);
template void ColumnSum::start(std::span<double> values, int64_t index);

template <typename T>
std::span<T> ColumnSum::piece(std::span<T> values, int32_t number) const {
  const size_t most = transport_.table().flows.front().most_bytes / sizeof(T);
  const size_t begin = to_size(number) * most;
  return values.subspan(begin, std::min(most, values.size() - begin));
}

// Messages arrive where they are read, aligned for any element.
template <typename T>
std::span<const T> ColumnSum::receive(int64_t flow, std::span<T> values, int32_t number) {
  const size_t elements = piece(values, number).size();
  const std::span<const std::byte> bytes = transport_.begin_receive(flow, {index_, number}, elements * sizeof(T));
  return {reinterpret_cast<const T*>(bytes.data()), elements};
}

template <typename T>
void ColumnSum::send(int64_t flow, int32_t number, std::span<const T> content) {
  std::memcpy(transport_.begin_send(flow).data(), content.data(), content.size_bytes());
  transport_.commit_send(flow, {index_, number}, content.size_bytes());
}

// Flows of this rank: sums come from the rank below and go to the one above, totals the other way.
namespace {
struct ColumnFlows {
  explicit ColumnFlows(int64_t rank) : sum_in(2 * (rank - 1)), total_out(2 * (rank - 1) + 1), sum_out(2 * rank), total_in(2 * rank + 1) {}
  int64_t sum_in, total_out, sum_out, total_in;
};
}  // namespace

template <typename T>
bool ColumnSum::take_total(std::span<T> values) {
  const int64_t rank = transport_.rank();
  const ColumnFlows flows(rank);
  if (rank + 1 == transport_.ranks() || down_ >= up_ || !transport_.has_message(flows.total_in)) return false;
  if (rank > 0 && !transport_.can_send(flows.total_out)) return false;
  const std::span<const T> total = receive(flows.total_in, values, down_);
  std::copy(total.begin(), total.end(), piece(values, down_).begin());
  if (rank > 0) send(flows.total_out, down_, total);
  transport_.release(flows.total_in);
  ++down_;
  return true;
}

template <typename T>
bool ColumnSum::add_own(std::span<T> values) {
  const int64_t rank = transport_.rank();
  const ColumnFlows flows(rank);
  const bool top = rank + 1 == transport_.ranks();
  const int64_t out = top ? flows.total_out : flows.sum_out;
  if (up_ >= pieces_ || !transport_.can_send(out) || (rank > 0 && !transport_.has_message(flows.sum_in))) return false;
  const std::span<T> mine = piece(values, up_);
  if (rank > 0) {
    const std::span<const T> below = receive(flows.sum_in, values, up_);
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = below[i] + mine[i];
    transport_.release(flows.sum_in);
  }
  send(out, up_, std::span<const T>(mine));
  ++up_;
  if (top) ++down_;
  return true;
}

template <typename T>
bool ColumnSum::advance_with(std::span<T> values) {
  moved_ = false;
  // Totals first: they free the ranks above.
  while (!done() && (take_total(values) || add_own(values))) {
    moved_ = true;
    transport_.progress();
  }
  transport_.progress();
  return done();
}

bool ColumnSum::advance() { return wide_.empty() ? advance_with(narrow_) : advance_with(wide_); }

void ColumnSum::look(std::vector<Interest>& missing) {
  const int64_t rank = transport_.rank();
  const ColumnFlows flows(rank);
  const bool top = rank + 1 == transport_.ranks();
  // advance() looks at the wire once more before it ends: a step's last message may have come with that.
  const auto look_for = [&](std::initializer_list<Interest> needs) {
    const auto lacking = std::ranges::find_if(needs, [&](const Interest& interest) { return !transport_.ready(interest); });
    missing.push_back(lacking != needs.end() ? *lacking : *std::prev(needs.end()));
  };
  if (!top && down_ < up_) {
    const Interest total{Want::kMessage, flows.total_in, {index_, down_}};
    if (rank > 0)
      look_for({total, {Want::kCredit, flows.total_out, {index_, down_}}});
    else
      look_for({total});
  }
  if (up_ < pieces_) {
    const Interest room{Want::kCredit, top ? flows.total_out : flows.sum_out, {index_, up_}};
    if (rank > 0)
      look_for({{Want::kMessage, flows.sum_in, {index_, up_}}, room});
    else
      look_for({room});
  }
}

template <typename T>
void ColumnSum::run(std::span<T> values, int64_t index) {
  start(values, index);
  std::vector<Interest> missing;
  while (!advance()) {
    missing.clear();
    look(missing);
    transport_.wait(missing);
  }
}

template void ColumnSum::run(std::span<float> values, int64_t index);
template void ColumnSum::run(std::span<double> values, int64_t index);

}  // namespace millrace
