#include "gpu/rnn/performance_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/rnn/mapping.h"

namespace millrace::rnn {
namespace {

constexpr int kWidestTile = 64;
constexpr int kWarp = 32;
constexpr int kSchedulers = 4;  // per multiprocessor; a block whose warps do not spread evenly over them wastes one
constexpr int kFloatBytes = 4;

// Gates whose products are tiled together. A GRU's third gate is the dependent one and is counted apart.
int tiled_gates(Cell cell) { return cell == Cell::kLstm ? 4 : 2; }

int warps_per_scheduler(int threads) { return ceil_of(threads, kWarp * kSchedulers); }

double product_slowdown(double warps, double outputs, const Gpu& gpu) {
  if (warps * outputs > gpu.products_saturate) return gpu.saturated_slowdown * warps * outputs / gpu.products_saturate;
  return std::pow(gpu.warp_slowdown, std::log2(warps)) * std::pow(gpu.reuse_slowdown, std::log2(outputs));
}

double reduction_slowdown(double reductions, const Gpu& gpu) {
  if (reductions < gpu.reductions_saturate) return std::pow(gpu.reduction_slowdown, reductions);
  return std::pow(gpu.reduction_slowdown, gpu.saturated_reductions) * reductions / gpu.reductions_saturate;
}

void require_positive(const Layer& layer) {
  if (layer.hidden < 1 || layer.batch < 1)
    throw std::invalid_argument("a recurrent layer of " + std::to_string(layer.hidden) + " units and batch " + std::to_string(layer.batch) +
                                ": both must be at least 1");
}

}  // namespace

std::string_view name_of(Cell cell) {
  switch (cell) {
    case Cell::kLstm: return "LSTM";
    case Cell::kGruOneBarrier: return "GRU, one barrier";
    case Cell::kGruTwoBarriers: return "GRU, two barriers";
  }
  return "";
}

Gpu titan_v() {
  return {.multiprocessors = 80,
          .registers = 65536,
          .weight_registers = 224,
          .other_registers = 32,
          .threads = 1024,
          .multiply_add_latency = 4,
          .l2_bytes_per_cycle = 64,
          .l2_latency = 50,
          .shared_bytes_per_cycle = 128,
          .shuffle = 7,
          .warp_slowdown = 1.6,
          .reuse_slowdown = 1.33,
          .products_saturate = 8,
          .saturated_slowdown = 4.7,
          .reduction_slowdown = 1.03,
          .reductions_saturate = 12,
          .saturated_reductions = 8};
}

std::vector<Mapping> every_mapping(const Layer& layer) {
  require_positive(layer);
  std::vector<Mapping> mappings;
  for (int width = 1; width <= kWidestTile; ++width)
    for (int height = 1; height <= layer.batch; ++height) {
      if (layer.batch % height != 0) continue;
      const int columns = width * tiled_gates(layer.cell);
      for (int groups = 1; groups <= columns; ++groups) {
        if (columns % groups != 0) continue;
        for (int size = 1; size <= kWarp; size *= 2) mappings.push_back({width, height, groups, size});
      }
    }
  return mappings;
}

Footprint footprint_of(const Layer& layer, const Mapping& mapping) {
  Footprint footprint{};
  footprint.blocks = ceil_of(layer.hidden, mapping.tile_width) * ceil_of(layer.batch, mapping.tile_height);
  footprint.threads = mapping.work_groups * mapping.group_size;
  footprint.outputs_per_thread = ceil_of(mapping.tile_width * tiled_gates(layer.cell), mapping.work_groups);
  const double tiled = 1.0 * footprint.outputs_per_thread * layer.hidden / mapping.group_size;
  switch (layer.cell) {
    case Cell::kLstm: footprint.weights_per_thread = tiled; break;
    // The dependent gate's rows of this tile, spread over the whole block.
    case Cell::kGruOneBarrier:
      footprint.weights_per_thread = tiled + 1.0 * mapping.tile_width * ceil_of(layer.hidden, footprint.threads);
      break;
    case Cell::kGruTwoBarriers: footprint.weights_per_thread = tiled * 3 / 2; break;
  }
  return footprint;
}

std::optional<std::string_view> refusal(const Layer& layer, const Mapping& mapping, const Gpu& gpu) {
  const Footprint use = footprint_of(layer, mapping);
  if (use.blocks > gpu.multiprocessors) return "more blocks than multiprocessors: they could not all wait at a barrier";
  if (use.threads > gpu.threads) return "more threads than a block may have";
  if (use.threads % (kWarp * kSchedulers) != 0) return "the warps do not spread evenly over the schedulers";
  if (use.weights_per_thread > gpu.weight_registers) return "more weights than a thread's registers hold";
  if ((use.weights_per_thread + gpu.other_registers) * use.threads > gpu.registers) return "more registers than a multiprocessor has";
  if (use.outputs_per_thread * mapping.tile_height > mapping.group_size) return "more outputs than threads in a group to finish them";
  return std::nullopt;
}

Cost cost_of(const Layer& layer, const Mapping& mapping, const Gpu& gpu) {
  const Footprint use = footprint_of(layer, mapping);
  const double warps = warps_per_scheduler(use.threads);
  const double outputs = use.outputs_per_thread;

  // Pairs of multiprocessors share a way to the L2 cache: past half of them a load takes twice as long.
  const int crowding = 1 + 2 * use.blocks / gpu.multiprocessors;
  const double state =
      1.0 * kFloatBytes * layer.hidden * mapping.tile_height * crowding / (gpu.multiply_add_latency * gpu.l2_bytes_per_cycle);
  const double sequence = mapping.tile_height * (1.0 * layer.hidden / mapping.group_size);
  const double products = sequence * product_slowdown(warps, outputs, gpu);
  // A group narrower than a warp has one exchange more, to bring its sums together for the gates.
  const double exchanges = std::log2(mapping.group_size) + (mapping.group_size < kWarp ? 1 : 0);
  const double reduction = gpu.shuffle * exchanges * reduction_slowdown(warps * outputs * mapping.tile_height, gpu);

  switch (layer.cell) {
    case Cell::kLstm: return {state, products, reduction, 0};  // every mapping has the same one barrier
    case Cell::kGruOneBarrier: {
      const double tiles = 1.0 * layer.hidden / mapping.tile_width;
      return {state * (1 + tiles), products + mapping.tile_width + tiles, 2 * reduction, 0};
    }
    case Cell::kGruTwoBarriers: return {2 * state, 1.5 * products, 2 * reduction, 4 * gpu.l2_latency};  // the second: two round trips
  }
  return {};
}

std::vector<Candidate> ranked_mappings(const Layer& layer, const Gpu& gpu) {
  std::vector<Candidate> candidates;
  for (const Mapping& mapping : every_mapping(layer))
    if (!refusal(layer, mapping, gpu)) candidates.push_back({mapping, cost_of(layer, mapping, gpu)});
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.cost.total() != b.cost.total() ? a.cost.total() < b.cost.total() : a.mapping < b.mapping;
  });
  return candidates;
}

Parted ranked_in_parts(const Layer& layer, const Gpu& gpu) {
  require_positive(layer);
  for (int parts = 1; parts <= layer.batch; ++parts) {
    if (layer.batch % parts != 0) continue;
    std::vector<Candidate> candidates = ranked_mappings({layer.cell, layer.hidden, layer.batch / parts}, gpu);
    if (!candidates.empty()) return {parts, std::move(candidates)};
  }
  return {};
}

std::optional<Cell> better_gru(int hidden, int batch, const Gpu& gpu) {
  std::optional<Cell> best;
  double least = 0;
  for (const Cell cell : {Cell::kGruOneBarrier, Cell::kGruTwoBarriers}) {
    const Parted ranked = ranked_in_parts({cell, hidden, batch}, gpu);
    if (ranked.parts == 0 || (best && ranked.total() >= least)) continue;
    best = cell;
    least = ranked.total();
  }
  return best;
}

}  // namespace millrace::rnn
