// All-reduce of a device column: the sum over replicas of what each holds, on all of them, added in the order of the ranks,
// so that every run and every replica gets bitwise the same.
//
//   Transport column(make_ring_wire(session.split(/*colour=*/rank_in_ring, /*key=*/replica)), settings);
//   column.open(ColumnSum::flows(column.ranks()));
//   ColumnSum sum(column);
//   sum.add_up(std::span<float>(gradients), step);            // all replicas, in the same order
//
// The replicas form a chain: sums travel up it, ((x0 + x1) + x2) + ..., and the result travels back down, in pieces that
// follow each other. A link carries every element once each way, as a ring all-reduce does, in a fixed order besides.
// Borrows the transport, which carries nothing else on these two flows per link. Works in place. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/streams/transport.h"

namespace millrace {

class ColumnSum {
 public:
  static constexpr size_t kPieceBytes = 256 << 10;

  // What the column's transport must be opened with; flows 2 r and 2 r + 1 go up and down between rank r and r + 1.
  static FlowTable flows(int64_t ranks, size_t piece_bytes = kPieceBytes, int64_t credits = 4);

  explicit ColumnSum(Transport& transport);

  // `index` names the operation in errors and must be the same everywhere: the update, say.
  void add_up(std::span<float> values, int64_t index) { run(values, index); }
  void add_up(std::span<double> values, int64_t index) { run(values, index); }

 private:
  template <typename T>
  void run(std::span<T> values, int64_t index);

  Transport& transport_;
};

}  // namespace millrace
