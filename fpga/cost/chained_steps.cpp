#include "fpga/cost/chained_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "fpga/common/cost/bram_packing.h"
#include "fpga/pe_chain/chain_product.h"

namespace millrace {

bool asks_for_steps(const ShardQuestion& question) {
  return question.node != nullptr && role_of(question.node->layer.operation) == Role::kRecurrence && !question.blocks.empty() &&
         std::ranges::all_of(question.blocks, [](const Block& block) { return block.inputs.empty(); });
}

KnownRows::Row KnownRows::at(const RecurrentSize& size, const ChainBoard& board, int64_t bits, int64_t samples) {
  const Key key{size.cells, size.fed_back, size.cell, size.units, size.directions, samples};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  Row made;
  made.row = best_row(size, board, 1, static_cast<int>(bits), &made.lack, samples);
  const std::lock_guard lock(mutex_);
  return known_.emplace(key, std::move(made)).first->second;
}

std::optional<ChainedSteps> chained_steps(const ShardQuestion& question, const FpgaResources& board, int64_t bits, KnownRows& known,
                                          std::string* why) {
  const auto& cell = std::get<Recurrent>(question.node->layer.operation);
  if (cell.cell == CellKind::kGru && !cell.reset_after) {
    *why = "is a gru whose reset comes before the product, which walks its state twice a step: set reset_after";
    return std::nullopt;
  }
  const int64_t gates = gates_of(cell.cell), samples = question.micro_batch;
  const bool shared = !question.units.empty();
  // Boards tell each other of every step, of both directions at once: these take turns on the elements, beside each other.
  const int64_t units = shared ? question.units.size() : cell.hidden, directions = shared ? cell.directions() : 1;
  const ChainBoard chains{.name = board.name,
                          .dsp = std::min(board.dsps, board.engine_dsps() / kUsableDsp),
                          .bram36 = board.bram36,
                          .uram = board.urams,
                          .clock_hz = static_cast<double>(board.clock_hz),
                          .cable_bits_per_second = std::numeric_limits<double>::infinity(),
                          .cable_seconds = 0,
                          .dimensions = board.chains};
  const auto [row, lack] =
      known.at({.cells = cell.hidden, .fed_back = cell.features(), .cell = cell.cell, .units = units, .directions = directions}, chains,
               bits, samples);
  if (!row) {
    *why = fmt::format("keeps the weights of {} in chained elements, and the board has too little for that: {}",
                       shared ? fmt::format("{} cells' steps", units) : "one direction's steps", lack);
    return std::nullopt;
  }
  int64_t weights = 0;  // of the steps, biases too
  for (const ParameterSpec& parameter : question.node->parameters)
    if (!parameter.tensor.starts_with("weight_ih")) weights += parameter.elements();
  const auto steps = static_cast<double>(cell.directions() / directions * question.node->output.height);
  const auto batch = static_cast<double>(samples);
  weights = weights / cell.hidden * units;
  ChainedSteps made{.row = *row};
  const auto seconds_of = [&](int64_t beats) {
    return static_cast<double>(cell.directions() / directions * beats) / static_cast<double>(board.clock_hz);
  };
  const double forward_load = seconds_of(row->forward_load_beats), back_load = seconds_of(row->back_load_beats);
  made.load_seconds = std::max(forward_load, back_load);
  made.forward_seconds = (steps * row->forward_seconds + forward_load) / batch;
  made.back_seconds = (steps * row->back_seconds + back_load) / batch;
  const auto feeds = static_cast<double>(
      samples * feed_cycles({.inputs = question.node->input_shapes[0].channels, .outputs = units, .elements = row->elements}));
  made.input_product_seconds =
      static_cast<double>(cell.directions() * question.node->output.height) * feeds / static_cast<double>(board.clock_hz) / batch;
  made.memory_bits = row->urams * kUramBits + row->half_blocks * kBram36Bits / 2;
  const double kept = steps * static_cast<double>(directions * (gates + 1) * units) * batch * static_cast<double>(question.window);
  made.off_chip_bytes = static_cast<double>(bits) / 8 * (kept + 2 * static_cast<double>(weights));
  if (made.off_chip_bytes > board.off_chip_bytes) {
    *why = fmt::format(
        "leaves {:.3g} bytes for the way back in the board's own memory, of {:.3g}: fewer micro-batches in flight, or smaller ones",
        made.off_chip_bytes, board.off_chip_bytes);
    return std::nullopt;
  }
  return made;
}

}  // namespace millrace
