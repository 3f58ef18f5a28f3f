#include "gpu/rnn/plan.h"

#include <algorithm>
#include <cmath>

#include "gpu/rnn/kernels/shapes.h"

namespace millrace::rnn {
namespace {

int phases_of(const KernelShape& shape) { return shape.recurrence == Recurrence::kCanonicalGru && shape.width == 0 ? 2 : 1; }

int gates_in_phase(const KernelShape& shape, int phase) {
  if (shape.backward) return 1;
  if (shape.recurrence != Recurrence::kCanonicalGru) return gates_of(shape.recurrence);
  return phase == 0 ? 2 : 1;
}

int columns_in_phase(const KernelShape& shape, int phase, int hidden) {
  if (!shape.backward) return hidden;
  if (shape.recurrence != Recurrence::kCanonicalGru) return gates_of(shape.recurrence) * hidden;
  return phase == 0 ? 2 * hidden : hidden;
}

// Of a phase, that a block multiplies.
int columns_of_block(const KernelShape& shape, int phase, int hidden) {
  return columns_in_cluster(columns_in_phase(shape, phase, hidden), shape.cluster);
}

// Rows that a block holds in a phase, and whether it holds all columns.
struct Holding {
  int rows;
  bool columns;
};
Holding holding_of(const KernelShape& shape, int phase, int threads, int slices, int columns) {
  const int rows = phase == 0 ? shape.rows : second_rows(shape.backward, shape.rows);
  const int width = phase == 0 ? shape.columns : second_columns(shape.backward, shape.matrix_units, shape.columns);
  if (shape.matrix_units) {
    const MatrixTile tile{rows, width, shape.samples};
    return {rows_per_block(tile, slices, threads), holds_columns(tile, slices, columns)};
  }
  return {rows_per_block(FmaTile{rows, width, shape.group, shape.samples}, slices, threads), true};  // the rest spills
}

// Whoever waits polls, and all polls of a row of states go to the same lines of the L2 cache, whose slices answer one after the other: a
// state's write waits in their queue, then half a turn of polls until the next one asks, and its answer waits again.
double polling(const Layout& layout, const Gpu& gpu) {
  const int readers = layout.unit_tiles / layout.kernel.shape.cluster;
  return 1.5 * readers * gpu.l2_line_cycles / gpu.multiply_add_latency;
}

// The sums that blocks of a cluster send each other.
double within_cluster(const Layout& layout, const Problem& problem, int phase, const Gpu& gpu) {
  const KernelShape& shape = layout.kernel.shape;
  if (shape.cluster == 1) return 0;
  const int sums =
      shape.cluster * layout.slices * gates_in_phase(shape, phase) * layout.tile_width * std::min(height_of(shape), problem.batch);
  return gpu.cluster_latency + 4.0 * sums / (gpu.multiply_add_latency * gpu.cluster_bytes_per_cycle);
}

// One phase of a step by the performance model, which knows LSTM tiles: a quarter of the rows as wide.
double cost_of_phase(const Layout& layout, const Problem& problem, int phase, const Limits& limits, const Gpu& gpu) {
  const KernelShape& shape = layout.kernel.shape;
  const int columns = columns_of_block(shape, phase, problem.hidden);
  const int height = height_of(shape);
  const int rows = phase == 0 ? shape.rows : second_rows(shape.backward, shape.rows);
  const double gather = 1.0 * bytes_of(shape.precision) * columns * height *
                        (1 + 2 * layout.blocks(problem.sides) / limits.multiprocessors) /
                        (gpu.multiply_add_latency * gpu.l2_bytes_per_cycle);
  const double exchange = gather + polling(layout, gpu) + within_cluster(layout, problem, phase, gpu);
  if (shape.matrix_units) {
    // A warp's fragment product occupies its scheduler for about eight multiply-adds' time; slices are summed one by one.
    const double fragments = 1.0 * rows * ceil_of(columns, 16 * layout.slices) * shape.samples * layout.threads / 128;
    return exchange + 8 * fragments / gpu.multiply_add_latency + layout.slices;
  }
  Gpu one = gpu;
  one.multiprocessors = limits.multiprocessors;
  const int groups = layout.threads / shape.group / layout.slices;
  const Mapping mapping{std::max(1, rows * groups / 4), height, groups, shape.group * layout.slices};
  const Cost cost = cost_of({Cell::kLstm, columns, height}, mapping, one);
  // Weights beyond the registers come through shared memory in every step, whose banks bring so many bytes per cycle and no more.
  const int width = phase == 0 ? shape.columns : second_columns(shape.backward, false, shape.columns);
  const int beyond = spilled_columns(FmaTile{rows, width, shape.group, height}, layout.slices, columns);
  const double reloads = 4.0 * beyond * rows * layout.threads / (gpu.multiply_add_latency * gpu.shared_bytes_per_cycle);
  return exchange + cost.products + cost.reduction + reloads;
}

}  // namespace

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat: return "fp32";
    case Precision::kHalf: return "fp16";
    case Precision::kBFloat16: return "bf16";
  }
  return "";
}

std::string_view name_of(Recurrence recurrence) {
  switch (recurrence) {
    case Recurrence::kLstm: return "LSTM";
    case Recurrence::kGru: return "GRU";
    case Recurrence::kCanonicalGru: return "canonical GRU";
    case Recurrence::kTanh: return "tanh";
    case Recurrence::kRelu: return "ReLU";
  }
  return "";
}

std::string name_of(const KernelShape& shape) {
  const auto number = [](int value) { return std::to_string(value); };
  std::string name = std::string(name_of(shape.recurrence)) + (shape.backward ? " backward " : " forward ") +
                     std::string(name_of(shape.precision)) + (shape.matrix_units ? " matrix " : " FMA ") + number(shape.rows) + "x" +
                     number(shape.columns) + "x" + number(shape.group) + "x" + number(shape.samples);
  if (shape.width > 0) name += ", one exchange of " + number(shape.width) + "x" + number(shape.outputs);
  if (shape.cluster > 1) name += ", clusters of " + number(shape.cluster);
  return name;
}

std::string name_of(const Layout& layout) {
  return name_of(layout.kernel.shape) + ": " + std::to_string(layout.unit_tiles) + " tiles of " + std::to_string(layout.tile_width) +
         " units, " + std::to_string(layout.sample_tiles) + " of samples in " + std::to_string(layout.rounds) + " rounds, " +
         std::to_string(layout.threads) + " threads in " + std::to_string(layout.slices) + " slices";
}

std::optional<Layout> layout_of(const Kernel& kernel, int threads, int slices, const Limits& limits, const Problem& problem) {
  const KernelShape& shape = kernel.shape;
  const int sharers = shape.matrix_units ? threads / device::kWarp : threads / shape.group;
  if (sharers % slices != 0) return std::nullopt;
  Layout layout{.kernel = kernel, .threads = threads, .slices = slices};
  const int height = height_of(shape);
  layout.tile_width = std::min(problem.hidden, threads / height);
  if (shape.width > 0) layout.tile_width = std::min(layout.tile_width, shape.width);
  for (int phase = 0; phase < phases_of(shape); ++phase) {
    const Holding holding = holding_of(shape, phase, threads, slices, columns_of_block(shape, phase, problem.hidden));
    if (!holding.columns) return std::nullopt;
    layout.tile_width = std::min(layout.tile_width, holding.rows / shape.cluster / gates_in_phase(shape, phase));
  }
  if (layout.tile_width < 1) return std::nullopt;
  layout.unit_tiles = rounded_up(ceil_of(problem.hidden, layout.tile_width), shape.cluster);
  layout.tile_width = ceil_of(problem.hidden, layout.unit_tiles);  // as even as the number of blocks allows
  layout.unit_tiles = rounded_up(ceil_of(problem.hidden, layout.tile_width), shape.cluster);
  const int blocks = shape.cluster == 1 ? limits.multiprocessors : std::min(limits.multiprocessors, shape.cluster * limits.clusters);
  const int room = blocks / problem.sides / layout.unit_tiles;
  if (room < 1) return std::nullopt;
  const int turns = ceil_of(problem.batch, height);
  layout.rounds = ceil_of(turns, room);
  layout.sample_tiles = ceil_of(turns, layout.rounds);
  if (shape.width > 0 && (layout.rounds > 1 || threads * shape.outputs < problem.hidden)) return std::nullopt;
  layout.shared_bytes = kernel.shared_bytes(problem.hidden, threads, slices);
  if (layout.shared_bytes > limits.shared_bytes) return std::nullopt;
  return layout;
}

std::vector<Layout> ranked_layouts(const std::vector<Kernel>& kernels, const Limits& limits, const Problem& problem, const Gpu& gpu) {
  std::vector<Layout> layouts;
  for (const Kernel& kernel : kernels) {
    const KernelShape& shape = kernel.shape;
    if (shape.recurrence != problem.recurrence || shape.backward != problem.backward || shape.precision != problem.precision) continue;
    for (int threads = kKernelThreads; threads >= 128; threads /= 2)
      for (int slices = 1; slices <= threads / shape.group; slices *= 2) {
        std::optional<Layout> layout = layout_of(kernel, threads, slices, limits, problem);
        if (!layout) continue;
        double step = 0;
        for (int phase = 0; phase < phases_of(shape); ++phase)
          step += cost_of_phase(*layout, problem, phase, limits, gpu) + 4 * gpu.l2_latency;
        // The one-exchange form reads every tile's partial sums of the whole layer.
        if (shape.width > 0)
          step += 4.0 * problem.hidden * layout->unit_tiles * shape.samples / (gpu.multiply_add_latency * gpu.l2_bytes_per_cycle) +
                  layout->tile_width + layout->unit_tiles;
        layout->cost = step * layout->rounds;
        layouts.push_back(*layout);
      }
  }
  std::stable_sort(layouts.begin(), layouts.end(), [](const Layout& a, const Layout& b) { return a.cost < b.cost; });
  return layouts;
}

std::string why_not(const Limits& limits, const Problem& problem) {
  const double weights = 1.0 * gates_of(problem.recurrence) * problem.hidden * problem.hidden * bytes_of(problem.precision) * problem.sides;
  const auto mebibytes = [](double bytes) { return std::to_string(static_cast<long long>(std::ceil(bytes / (1024.0 * 1024.0)))) + " MiB"; };
  return "no kernel holds the " + mebibytes(weights) + " of recurrent weights of " + std::to_string(problem.hidden) + " " +
         std::string(name_of(problem.precision)) + " units on " + std::to_string(limits.multiprocessors) +
         " multiprocessors for all steps: the layer runs one step at a time, which reads them again in every step";
}

}  // namespace millrace::rnn
