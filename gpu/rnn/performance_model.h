// Which mapping of a recurrent layer onto a GPU's registers is fastest, predicted without running it. The model is that
// of GRNN (Holmes et al., EuroSys 2019): weights stay in registers over all time steps, one thread block per output tile,
// and a time step costs the gather of the hidden state, the partial dot products, their reduction and the barriers.
//
//   const std::vector<Candidate> best = ranked_mappings({Cell::kLstm, 256, 20}, titan_v());
//   if (best.empty()) use_plain_gemm();          // the layer exceeds the register file
//   else compile_and_time(best, 5);              // the model ranks; the clock decides among the first few
//
// Costs are counts of fused multiply-adds on one thread's critical path per time step: good for ranking, not seconds.
// The constants are fitted per GPU by micro-benchmarks; titan_v() holds the published ones.
// Host code on the standard library alone. Values only, nothing is owned; everything is a pure function.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace millrace::rnn {

// A GRU's candidate gate needs the reset gate of the whole layer. Two barriers per step wait for it; one barrier
// recomputes partial sums from every tile instead and pays with a gather that grows with the number of tiles.
enum class Cell { kLstm, kGruOneBarrier, kGruTwoBarriers };

std::string_view name_of(Cell cell);

struct Layer {
  Cell cell;
  int hidden;  // units
  int batch;   // samples that advance together
};

struct Gpu {
  int multiprocessors;
  int registers;                  // of one multiprocessor, 32 bits each
  int weight_registers;           // of one thread, the most that can hold weights
  int other_registers;            // of one thread, what everything else takes
  int threads;                    // of one block, at most
  double multiply_add_latency;    // cycles
  double l2_bytes_per_cycle;      // of one multiprocessor
  double l2_latency;              // in multiply-adds, one way
  double shared_bytes_per_cycle;  // of one multiprocessor: 32 banks of four bytes on all of them
  double shuffle;                 // one exchange within a warp, in multiply-adds
  double warp_slowdown;           // of the products, each time the warps per scheduler double
  double reuse_slowdown;          // of the products, each time the outputs per thread double
  double products_saturate;       // warps x outputs per thread beyond which the multipliers are busy ...
  double saturated_slowdown;      // ... and the slowdown there
  double reduction_slowdown;      // of the reduction, for each warp x output
  double reductions_saturate;     // warps x outputs beyond which the shuffle units are busy ...
  double saturated_reductions;    // ... where the slowdown is that of so many
  // Of an exchange by polling, and of clusters; zero: not looked at, as in the paper.
  double l2_line_cycles = 0;           // that a slice of the L2 cache takes for one reader of a whole line
  double cluster_latency = 0;          // from block to block of a cluster, one way, in multiply-adds
  double cluster_bytes_per_cycle = 1;  // that a block of a cluster receives
};

// Published constants of the paper's GPU.
Gpu titan_v();

// A block computes an output tile of `tile_width` units by `tile_height` samples with `work_groups` groups of
// `group_size` threads; the threads of a group share the outputs of its group and split the hidden state among them.
struct Mapping {
  int tile_width;
  int tile_height;
  int work_groups;
  int group_size;
  friend auto operator<=>(const Mapping&, const Mapping&) = default;
};

// What a mapping amounts to.
struct Footprint {
  int blocks;
  int threads;             // per block
  int outputs_per_thread;  // gate columns that one group computes
  double weights_per_thread;
};

struct Cost {
  double gather;
  double products;
  double reduction;
  double barriers;
  double total() const { return gather + products + reduction + barriers; }
};

struct Candidate {
  Mapping mapping;
  Cost cost;
};

// The whole space: tiles of up to 64 units, heights that divide the batch, groups that divide the tile's gate columns,
// group sizes of 1 to 32. Throws std::invalid_argument when a size is not positive.
std::vector<Mapping> every_mapping(const Layer& layer);

Footprint footprint_of(const Layer& layer, const Mapping& mapping);

// Why the GPU cannot run a mapping, in words; nothing when it can.
std::optional<std::string_view> refusal(const Layer& layer, const Mapping& mapping, const Gpu& gpu);

Cost cost_of(const Layer& layer, const Mapping& mapping, const Gpu& gpu);

// All mappings that the GPU can run, cheapest first; equal costs in the order of Mapping, so that the result is one.
std::vector<Candidate> ranked_mappings(const Layer& layer, const Gpu& gpu);

// A batch that no mapping takes whole runs in equal parts, one after the other: the fewest that have a mapping. The paper
// does not say so in words; its times of a GRU of 1024 units at batch 20 are exactly twice those at batch 10.
struct Parted {
  int parts = 0;                                                            // 0: not even single samples fit
  std::vector<Candidate> candidates;                                        // for one part, cheapest first
  double total() const { return parts * candidates.front().cost.total(); }  // of a step for the whole batch
};
Parted ranked_in_parts(const Layer& layer, const Gpu& gpu);

// The better of the two forms of a GRU by their cheapest mappings, in parts where the batch needs it; nothing when neither fits.
std::optional<Cell> better_gru(int hidden, int batch, const Gpu& gpu);

}  // namespace millrace::rnn
