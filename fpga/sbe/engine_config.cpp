#include "fpga/sbe/engine_config.h"

#include "core/base/error.h"
#include "core/operation/recurrent.h"

namespace millrace {

void check(const SbeConfig& config) {
  const GateMatrix& shape = config.shape;
  if (shape.inputs < 0 || shape.hidden < 1 || shape.gates < 1)
    fail(ErrorCode::kUsage, "a recurrent layer of {} inputs, {} hidden units and {} gates", shape.inputs, shape.hidden, shape.gates);
  if (shape.projection < 0 || shape.projection > shape.hidden || (shape.projection > 0 && shape.gates != gates_of(CellKind::kLstm)))
    fail(ErrorCode::kUsage, "a projection of {} hidden units with {} gates to {}: that of an lstm, to no more than there are", shape.hidden,
         shape.gates, shape.projection);
  if (config.row_lanes < 1 || config.row_lanes % shape.gates != 0 || config.row_lanes > shape.rows())
    fail(ErrorCode::kUsage, "{} lanes: a multiple of the {} gates, at most the {} rows", config.row_lanes, shape.gates, shape.rows());
  if (config.columns < 1) fail(ErrorCode::kUsage, "{} columns a cycle; at least 1", config.columns);
  if (config.tail_units < 1) fail(ErrorCode::kUsage, "{} tail units; at least 1", config.tail_units);
  if (config.latency < 0) fail(ErrorCode::kUsage, "a latency of {} cycles", config.latency);
  if (config.slots < 2) fail(ErrorCode::kUsage, "{} slots: one is used while another is loaded, so at least 2", config.slots);
  if (config.slots > kMostSlots) fail(ErrorCode::kUsage, "{} slots: at most {}", config.slots, kMostSlots);
  if (config.words_per_cycle < 1) fail(ErrorCode::kUsage, "{} words a cycle from the memory outside; at least 1", config.words_per_cycle);
  constexpr int64_t kMostVectors = 1 << 24;
  if (config.streams < 1 || config.steps < 1)
    fail(ErrorCode::kUsage, "a batch of {} streams and {} steps; at least 1 of each", config.streams, config.steps);
  if (config.streams > kMostVectors / config.steps)
    fail(ErrorCode::kUsage, "a batch of {} streams and {} steps; at most {} in all", config.streams, config.steps, kMostVectors);
  if (config.sums_arrive && (shape.inputs > 0 || config.pinned != Pinned::kAll))
    fail(ErrorCode::kUsage, "sums that arrive beside {} inputs{}: x W is made elsewhere, and the weights of h stay on the chip",
         shape.inputs, config.pinned == Pinned::kAll ? "" : " and streamed weights");
  if (config.pinned != Pinned::kAll && config.block_chunks < 1)
    fail(ErrorCode::kUsage, "blocks of {} chunks; at least 1", config.block_chunks);
}

}  // namespace millrace
