// GRNN's performance model against the figures its paper prints. A program of its own, without a test framework, so that
// it runs on a GPU machine that has a compiler and nothing else: it prints what failed and exits 1.
#include "gpu/rnn/performance_model.h"

#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string>

#include "tests/gpu/rnn/checks.h"

namespace millrace::rnn {
namespace {

std::string text_of(const Mapping& m) {
  return "tile " + std::to_string(m.tile_width) + " x " + std::to_string(m.tile_height) + ", groups " + std::to_string(m.work_groups) +
         " x " + std::to_string(m.group_size);
}

// The paper prints whole costs; equal ones share a rank.
int rank_of(double cost, const std::vector<Candidate>& candidates) {
  int rank = 1;
  for (const Candidate& candidate : candidates) rank += std::floor(candidate.cost.total()) < std::floor(cost) ? 1 : 0;
  return rank;
}

// Table 2: LSTM of 256 units, batch 20, tiles of 32 x 2, 256 threads in every row.
void table_2() {
  struct Row {
    int groups, size, cost, rank;
  };
  const Row rows[] = {{128, 2, 449, 17}, {64, 4, 322, 3}, {32, 8, 252, 1}, {16, 16, 443, 14}, {8, 32, 561, 35}};
  const Layer layer{Cell::kLstm, 256, 20};
  const std::vector<Candidate> ranked = ranked_mappings(layer, titan_v());
  for (const Row& row : rows) {
    const Mapping mapping{32, 2, row.groups, row.size};
    const double cost = cost_of(layer, mapping, titan_v()).total();
    expect(std::abs(std::floor(cost) - row.cost) <= 1,
           text_of(mapping) + ": cost " + std::to_string(cost) + ", paper " + std::to_string(row.cost));
    const int rank = rank_of(cost, ranked);
    expect(rank == row.rank, text_of(mapping) + ": rank " + std::to_string(rank) + ", paper " + std::to_string(row.rank));
  }
  expect(!ranked.empty() && ranked.front().mapping == Mapping{32, 2, 32, 8}, "table 2's first is the best of all");
  // Where the slow rows lose, as the paper's text says: reduction 118 and 236, products 409.
  expect(std::floor(cost_of(layer, {32, 2, 16, 16}, titan_v()).reduction) == 118, "reduction of 16 x 16");
  expect(std::floor(cost_of(layer, {32, 2, 8, 32}, titan_v()).reduction) == 236, "reduction of 8 x 32");
  expect(std::floor(cost_of(layer, {32, 2, 128, 2}, titan_v()).products) == 409, "products of 128 x 2");
}

// Table 3: which form of GRU is faster, in all nine rows. No mapping takes 1024 units at batch 20 whole, in either form: a
// group of 32 threads finishes 20 samples of one gate's unit alone, so that the 13 units of an 80th of the layer take 832
// threads, whose registers do not hold the weights beside all else. The paper's last row is, in both columns and to the
// last digit, twice its row of batch 10: what a batch takes that runs in two parts. The model divides such batches so too.
void table_3() {
  struct Row {
    int hidden, batch;
    double one_barrier, two_barriers;  // milliseconds in the paper
    int parts;
  };
  const Row rows[] = {{64, 1, 0.181, 0.28, 1},   {64, 10, 0.186, 0.285, 1},   {64, 20, 0.201, 0.307, 1},
                      {256, 1, 0.275, 0.372, 1}, {256, 10, 0.323, 0.411, 1},  {256, 20, 0.431, 0.498, 1},
                      {1024, 1, 6.46, 0.683, 1}, {1024, 10, 64.76, 3.162, 1}, {1024, 20, 129.52, 6.324, 2}};
  int matches = 0;
  for (const Row& row : rows) {
    const std::string name = "GRU of " + std::to_string(row.hidden) + " units, batch " + std::to_string(row.batch);
    const std::optional<Cell> choice = better_gru(row.hidden, row.batch, titan_v());
    const Cell faster = row.one_barrier < row.two_barriers ? Cell::kGruOneBarrier : Cell::kGruTwoBarriers;
    expect(choice == faster, name + ": " + (choice ? std::string(name_of(*choice)) : "none") + ", paper " + std::string(name_of(faster)));
    matches += choice == faster ? 1 : 0;
    for (const Cell cell : {Cell::kGruOneBarrier, Cell::kGruTwoBarriers}) {
      const Parted ranked = ranked_in_parts({cell, row.hidden, row.batch}, titan_v());
      expect(ranked.parts == row.parts, name + ": in " + std::to_string(ranked.parts) + " parts");
    }
  }
  std::printf("GRNN's table 3: %d of %zu choices of barriers as in the paper\n", matches, std::size(rows));
  // What the paper's last two rows say of each other.
  for (const Cell cell : {Cell::kGruOneBarrier, Cell::kGruTwoBarriers}) {
    const double ten = ranked_in_parts({cell, 1024, 10}, titan_v()).total();
    const double twenty = ranked_in_parts({cell, 1024, 20}, titan_v()).total();
    expect(twenty == 2 * ten, std::string(name_of(cell)) + ": batch 20 takes " + std::to_string(twenty / ten) + " times batch 10, paper 2");
  }
  expect(ranked_mappings({Cell::kGruTwoBarriers, 1024, 20}, titan_v()).empty(), "GRU of 1024 units, batch 20 has no mapping in one part");
  expect(!better_gru(4096, 20, titan_v()), "GRU of 4096 units fits in no number of parts");
}

// The ranking holds exactly what is not refused, in order, and every refusal is one of the limits.
void pruning() {
  const Layer layer{Cell::kLstm, 1024, 1};
  const Gpu gpu = titan_v();
  const std::vector<Candidate> ranked = ranked_mappings(layer, gpu);
  expect(!ranked.empty(), "1024 units fit at batch 1");
  std::size_t kept = 0;
  for (const Mapping& mapping : every_mapping(layer)) kept += refusal(layer, mapping, gpu) ? 0U : 1U;
  expect(kept == ranked.size(), "ranked and refused make up the whole space");
  for (std::size_t i = 1; i < ranked.size(); ++i)
    expect(ranked[i - 1].cost.total() <= ranked[i].cost.total(), "order at " + std::to_string(i));
  for (const Candidate& candidate : ranked) {
    const Footprint use = footprint_of(layer, candidate.mapping);
    expect(use.blocks <= gpu.multiprocessors, text_of(candidate.mapping) + ": blocks");
    expect((use.weights_per_thread + gpu.other_registers) * use.threads <= gpu.registers, text_of(candidate.mapping) + ": registers");
    // Nothing is lost: the tiles' weights are those of the layer.
    const double weights = use.weights_per_thread * use.threads * std::ceil(1024.0 / candidate.mapping.tile_width);
    expect(weights >= 4.0 * 1024 * 1024, text_of(candidate.mapping) + ": holds all weights");
  }
  expect(ranked_mappings({Cell::kLstm, 4096, 1}, gpu).empty(), "4096 units exceed the register file");

  struct Refused {
    Mapping mapping;
    const char* because;
  };
  const Refused refused[] = {{{1, 1, 4, 32}, "more blocks"}, {{64, 1, 256, 32}, "block may"},         {{16, 1, 1, 32}, "spread"},
                             {{16, 1, 32, 4}, "thread's"},   {{16, 1, 32, 32}, "multiprocessor has"}, {{14, 1, 8, 32}, ""}};
  for (const Refused& row : refused) {
    const std::string_view reason = refusal(layer, row.mapping, gpu).value_or("");
    expect(std::string(row.because).empty() ? reason.empty() : reason.find(row.because) != std::string_view::npos,
           text_of(row.mapping) + ": refused because \"" + std::string(reason) + "\"");
  }
}

void bad_sizes() {
  try {
    ranked_mappings({Cell::kLstm, 0, 4}, titan_v());
    expect(false, "a layer of 0 units must be refused");
  } catch (const std::invalid_argument& error) {
    expect(std::string(error.what()).find("0 units and batch 4") != std::string::npos, error.what());
  }
}

int run() {
  table_2();
  table_3();
  pruning();
  bad_sizes();
  return report("performance model");
}

}  // namespace
}  // namespace millrace::rnn

int main() { return millrace::rnn::run(); }
