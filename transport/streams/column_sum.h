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
#include <vector>

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

  // The same without waiting, for a rank that has other things to do meanwhile: begin one, then advance until it is there.
  void begin(std::span<float> values, int64_t index) { start(values, index); }
  void begin(std::span<double> values, int64_t index) { start(values, index); }
  bool advance();
  // The last advance() got somewhere.
  bool moved() const { return moved_; }
  // What would let it go on: of every step that it may take next, the first thing that is lacking, or one that is here, where
  // nothing is lacking any more. A wait for them never sleeps over a step that could be taken.
  void look(std::vector<Interest>& missing);

 private:
  template <typename T>
  void run(std::span<T> values, int64_t index);
  template <typename T>
  void start(std::span<T> values, int64_t index);
  template <typename T>
  bool take_total(std::span<T> values);
  template <typename T>
  bool add_own(std::span<T> values);
  template <typename T>
  std::span<T> piece(std::span<T> values, int32_t number) const;
  template <typename T>
  std::span<const T> receive(int64_t flow, std::span<T> values, int32_t number);
  template <typename T>
  void send(int64_t flow, int32_t number, std::span<const T> content);
  template <typename T>
  bool advance_with(std::span<T> values);
  bool done() const { return down_ == pieces_; }

  Transport& transport_;
  // The sum that is under way.
  std::span<float> narrow_;
  std::span<double> wide_;
  int64_t index_ = 0;
  int32_t pieces_ = 0;
  int32_t up_ = 0;    // pieces that went up
  int32_t down_ = 0;  // totals that are here
  bool moved_ = false;
};

}  // namespace millrace
