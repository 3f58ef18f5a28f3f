// How a layer is laid out on a machine: which kernel, how many blocks, what each of them holds. The space of layouts is
// enumerated over the machine's kernels, pruned by its limits and ranked by the performance model.
//
//   const std::vector<Layout> ranked = ranked_layouts(machine.kernels(), machine.limits(), {Recurrence::kLstm, false, ...});
//   if (ranked.empty()) ... // the layer does not fit on the chip: single steps instead, with why_not() as the reason
//
// Pure functions of values.
#pragma once

#include <optional>

#include "gpu/rnn/machine.h"
#include "gpu/rnn/performance_model.h"

namespace millrace::rnn {

struct Problem {
  Recurrence recurrence = Recurrence::kLstm;
  bool backward = false;
  Precision precision = Precision::kFloat;
  int hidden = 0;
  int batch = 0;
  int sides = 1;  // that run in one launch
};

struct Layout {
  Kernel kernel;
  int threads = 0;
  int slices = 1;
  int tile_width = 0;
  int unit_tiles = 0;
  int sample_tiles = 0;
  int rounds = 0;
  int shared_bytes = 0;
  double cost = 0;  // multiply-adds on the critical path of a step, by the model: a rank, no time
  int blocks(int sides) const { return sides * unit_tiles * sample_tiles; }
};
std::string name_of(const Layout& layout);

// The layout of one kernel with so many threads and slices; nothing when the kernel cannot hold its part of the layer.
std::optional<Layout> layout_of(const Kernel& kernel, int threads, int slices, const Limits& limits, const Problem& problem);

// Every layout that fits, cheapest first. `gpu` brings the model's constants.
std::vector<Layout> ranked_layouts(const std::vector<Kernel>& kernels, const Limits& limits, const Problem& problem, const Gpu& gpu);

// Why there is no layout, in numbers.
std::string why_not(const Limits& limits, const Problem& problem);

}  // namespace millrace::rnn
