#include "transport/collectives/column_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"

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
void ColumnSum::run(std::span<T> values, int64_t index) {
  const int64_t rank = transport_.rank();
  const int64_t last = transport_.ranks() - 1;
  if (last == 0 || values.empty()) return;
  const int64_t sum_in = 2 * (rank - 1);  // from the rank below
  const int64_t total_out = 2 * (rank - 1) + 1;
  const int64_t sum_out = 2 * rank;  // to the rank above
  const int64_t total_in = 2 * rank + 1;
  const size_t most = transport_.table().flows.front().most_bytes / sizeof(T);
  const auto pieces = static_cast<int32_t>((values.size() + most - 1) / most);
  const auto piece = [&](int32_t p) {
    return values.subspan(static_cast<size_t>(p) * most, std::min(most, values.size() - static_cast<size_t>(p) * most));
  };

  // Messages arrive where they are read, aligned for any element.
  const auto receive = [&](int64_t flow, int32_t p) {
    const std::span<const std::byte> bytes = transport_.begin_receive(flow, {index, p}, piece(p).size_bytes());
    return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), piece(p).size());
  };
  const auto send = [&](int64_t flow, int32_t p, std::span<const T> content) {
    std::memcpy(transport_.begin_send(flow).data(), content.data(), content.size_bytes());
    transport_.commit_send(flow, {index, p}, content.size_bytes());
  };

  int32_t up = 0;    // pieces that went up
  int32_t down = 0;  // totals that are here
  while (down < pieces) {
    std::vector<Interest> missing;
    // Totals first: they free the ranks above.
    if (rank < last && down < up) {
      if (!transport_.has_message(total_in)) missing.push_back({Want::kMessage, total_in, {index, down}});
      if (rank > 0 && !transport_.can_send(total_out)) missing.push_back({Want::kCredit, total_out, {index, down}});
      if (missing.empty()) {
        const std::span<const T> total = receive(total_in, down);
        std::copy(total.begin(), total.end(), piece(down).begin());
        if (rank > 0) send(total_out, down, total);
        transport_.release(total_in);
        ++down;
        continue;
      }
    }
    const size_t before = missing.size();
    if (up < pieces) {
      const int64_t out = rank < last ? sum_out : total_out;
      if (rank > 0 && !transport_.has_message(sum_in)) missing.push_back({Want::kMessage, sum_in, {index, up}});
      if (!transport_.can_send(out)) missing.push_back({Want::kCredit, out, {index, up}});
      if (missing.size() == before) {
        const std::span<T> mine = piece(up);
        if (rank > 0) {
          const std::span<const T> below = receive(sum_in, up);
          for (size_t i = 0; i < mine.size(); ++i) mine[i] = below[i] + mine[i];
          transport_.release(sum_in);
        }
        send(out, up, mine);
        ++up;
        if (rank == last) ++down;
        transport_.progress();
        continue;
      }
    }
    transport_.wait(missing);
  }
  transport_.progress();
}

template void ColumnSum::run(std::span<float> values, int64_t index);
template void ColumnSum::run(std::span<double> values, int64_t index);

}  // namespace millrace
