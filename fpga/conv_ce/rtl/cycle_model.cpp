#include "fpga/conv_ce/rtl/cycle_model.h"

#include <algorithm>
#include <vector>

namespace millrace {

namespace {

// From an issued step to its result in the output FIFO.
constexpr int64_t kPipelineCycles = 7;
// From a captured sum to the gradient buffer.
constexpr int64_t kCaptureCycles = 6;

struct Walk {
  int64_t steps;      // of the window, downwards
  int64_t compute;    // cycles of one
  int64_t row_beats;  // of one row of the map the window moves on
  int64_t map_rows;
  int64_t stride;
  int64_t first_top;
  int64_t window_rows;
  int64_t bank_rows;  // rows the line buffer holds
};

// Step after step: a step begins when the step before is over and its rows are in; a row comes in when the one before is in
// and a bank is free. Only counts rows, so that a sample takes a few hundred additions.
int64_t cycles_of(const Walk& walk, int64_t samples, int64_t after) {
  std::vector<int64_t> row_in;     // when a row has arrived
  std::vector<int64_t> step_done;  // when a step is over
  const auto rows_behind = [&walk](int64_t step) { return std::clamp(walk.first_top + step * walk.stride, int64_t{0}, walk.map_rows); };
  // The step that must have begun before row `row` of all samples has a bank: rows_behind(step) > row - bank_rows.
  int64_t releasing = 0;  // steps begun, over all samples
  const auto released_by = [&](int64_t step) { return step / walk.steps * walk.map_rows + rows_behind(step % walk.steps); };
  int64_t row = 0;
  const int64_t all_steps = samples * walk.steps;
  int64_t clock = 0;
  std::vector<int64_t> step_begins(static_cast<size_t>(all_steps) + 1, 0);
  int64_t arrived = 0;
  for (int64_t step = 0; step < all_steps; ++step) {
    const int64_t local = step % walk.steps;
    const int64_t bottom = std::clamp(walk.first_top + local * walk.stride + walk.window_rows, int64_t{0}, walk.map_rows);
    const int64_t needed = step / walk.steps * walk.map_rows + bottom;
    for (; row < needed; ++row) {
      while (released_by(releasing) + walk.bank_rows <= row) ++releasing;
      // The step before `releasing` is over at the moment that `releasing` becomes the current one.
      const int64_t free = releasing == 0 ? 0 : step_begins[static_cast<size_t>(releasing)];
      arrived = std::max(arrived, free) + walk.row_beats;
    }
    clock = std::max(clock, arrived);
    clock += walk.compute;
    step_begins[static_cast<size_t>(step) + 1] = clock;
  }
  return clock + after;
}

int64_t rows_of_banks(int bits) { return int64_t{1} << bits; }

}  // namespace

int64_t forward_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return engine.groups_of_outputs(shape.outputs) * engine.groups_of_inputs(shape.inputs) *
         std::max(shape.out_width(), engine.load_words() + 1);
}

int64_t error_back_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return engine.groups_of_outputs(shape.outputs) * engine.groups_of_inputs(shape.inputs) *
         std::max(error_back_steps(shape).columns, engine.load_words() + 1);
}

int64_t gradient_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return engine.groups_of_outputs(shape.outputs) * engine.groups_of_inputs(shape.inputs) *
         std::max({shape.out_width(), engine.load_words(), int64_t{2}});
}

int64_t forward_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples) {
  const EngineMemories memories = engine_memories(engine, shape);
  return cycles_of({shape.out_height(), forward_row_cycles(engine, shape), engine.groups_of_inputs(shape.inputs) * shape.width,
                    shape.height, engine.stride, -shape.pad_h, engine.kernel, rows_of_banks(memories.row_banks)},
                   samples, kPipelineCycles);
}

int64_t error_back_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples) {
  const EngineMemories memories = engine_memories(engine, shape);
  const ErrorBackSteps steps = error_back_steps(shape);
  // The last sweep's errors are sent when all of them are there.
  const int64_t after = kPipelineCycles + shape.width * (steps.rows == 1 ? steps.last_phase - steps.first_phase + 1 : steps.last_phase + 1);
  return cycles_of({steps.rows, error_back_row_cycles(engine, shape), engine.groups_of_outputs(shape.outputs) * shape.out_width(),
                    shape.out_height(), 1, steps.first - engine.span() + 1, engine.span(), rows_of_banks(memories.error_row_banks)},
                   samples, after);
}

int64_t gradient_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples) {
  const EngineMemories memories = engine_memories(engine, shape);
  return cycles_of({shape.out_height(), gradient_row_cycles(engine, shape), engine.groups_of_inputs(shape.inputs) * shape.width,
                    shape.height, engine.stride, -shape.pad_h, engine.kernel, rows_of_banks(memories.row_banks)},
                   samples, kCaptureCycles + engine.load_words());
}

double forward_macs_per_cycle(const EngineParallelism& engine, const ConvolutionShape& shape) {
  const int64_t macs = shape.inputs * shape.outputs * engine.taps() * shape.out_width();
  const int64_t beats = engine.groups_of_inputs(shape.inputs) * shape.width * engine.stride;
  return static_cast<double>(macs) / static_cast<double>(std::max(forward_row_cycles(engine, shape), beats));
}

}  // namespace millrace
