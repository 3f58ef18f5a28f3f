#include "fpga/conv_ce/generator/row_timing.h"

#include <algorithm>

#include "core/base/check.h"
#include "fpga/conv_ce/generator/row_events.h"
#include "fpga/conv_ce/generator/row_walk.h"

namespace millrace {

int64_t RowBlocks::units() const { return rows <= first_block_rows ? 1 : 1 + (rows - first_block_rows + block_rows - 1) / block_rows; }

int64_t RowBlocks::unit_of(int64_t row) const {
  const int64_t local = row % rows;
  const int64_t unit = local < first_block_rows ? 0 : 1 + (local - first_block_rows) / block_rows;
  return row / rows * units() + unit;
}

int64_t RowBlocks::rows_to(int64_t unit) const {
  const int64_t local = unit % units();
  return unit / units() * rows + (local == 0 ? 0 : first_block_rows + (local - 1) * block_rows);
}

size_t RowTiming::stream(const RowBlocks& blocks, double row_seconds) {
  RowBlocks own = blocks;
  own.first_block_rows = std::min(own.first_block_rows, own.rows);
  if (own.units() == 1) own.block_rows = 1;
  streams_.push_back({own, row_seconds});
  joined_.push_back(joined_.size());
  return joined_.back();
}

size_t RowTiming::same(size_t stream) const {
  while (joined_[stream] != stream) stream = joined_[stream];
  return stream;
}

void RowTiming::join(size_t a, size_t b) {
  a = same(a);
  b = same(b);
  if (a == b) return;
  MILLRACE_CHECK(streams_[a].blocks == streams_[b].blocks, "streams of {} and {} rows move together", streams_[a].blocks.rows,
                 streams_[b].blocks.rows);
  joined_[std::max(a, b)] = std::min(a, b);
  slow_down(a, streams_[std::max(a, b)].row_seconds);
}

void RowTiming::slow_down(size_t stream, double row_seconds) {
  double& own = streams_[same(stream)].row_seconds;
  own = std::max(own, row_seconds);
}

void RowTiming::stage(RowStage stage) { stages_.push_back(std::move(stage)); }

size_t RowTiming::queue(const RowQueue& queue) {
  queues_.push_back(queue);
  return queues_.size() - 1;
}

void RowTiming::host(size_t scores, size_t errors) { hosts_.emplace_back(scores, errors); }

RowTimes RowTiming::run(const RowRun& how) const {
  const RowEvents events(*this, how.unlimited);
  return RowWalk(events, how).run();
}

}  // namespace millrace
