#include "gpu/rnn/steps.h"

#include <algorithm>
#include <vector>

#include "gpu/rnn/dispatch.h"

namespace millrace::rnn {
namespace {

// Where a phase of a single step finds its states.
struct StepSource {
  const void* rows;
  int stride;
  const void* matrix;
};

StepSource source_of(const KernelShape& shape, const Parameters& p, int side, int phase, int step) {
  StepSource found{};
  with_cell(shape, [&]<class Cell>(Cell) {
    const auto source = Cell::source(p, p.side[side], phase, step);
    found = {source.rows, source.stride, Cell::matrix(p.side[side], phase, p.hidden)};
  });
  return found;
}

}  // namespace

Steps::Steps(Machine& machine, const Problem& problem, bool training, const Gpu& constants) : machine_(machine), problem_(problem) {
  for (const bool backward : {false, true}) {
    if (backward && !training) continue;
    for (int sides = problem.sides; sides >= 1 && !layouts_[backward]; --sides) {
      Problem one = problem;
      one.backward = backward;
      one.sides = sides;
      const std::vector<Layout> ranked = ranked_layouts(machine.kernels(), machine.limits(), one, constants);
      if (!ranked.empty()) layouts_[backward] = ranked.front();
    }
    if (!layouts_[backward]) allocate_sums();  // now, for a GPU may wait for all its work before it gives memory
  }
}

void Steps::allocate_sums() {
  if (sums_ != nullptr) return;
  sums_ = static_cast<float*>(machine_.allocate(static_cast<std::size_t>(gates_of(problem_.recurrence)) *
                                                static_cast<std::size_t>(problem_.hidden) * static_cast<std::size_t>(problem_.batch) *
                                                sizeof(float)));
}

Steps::~Steps() {
  if (sums_ != nullptr) machine_.release(sums_);
}

std::string Steps::how(bool backward) const {
  const std::optional<Layout>& chosen = layout(backward);
  if (chosen) return name_of(*chosen);
  Problem problem = problem_;
  problem.backward = backward;
  problem.sides = 1;
  return why_not(machine_.limits(), problem);
}

void Steps::run(bool backward, Parameters p) {
  const std::optional<Layout>& chosen = layout(backward);
  if (!chosen) {
    p.training = 1;  // single steps hand over through what training keeps
    for (int s = 0; s < problem_.sides; ++s) single_steps(backward, p, s);
    return;
  }
  p.tile_width = chosen->tile_width;
  p.unit_tiles = chosen->unit_tiles;
  p.sample_tiles = chosen->sample_tiles;
  p.rounds = chosen->rounds;
  p.slices = chosen->slices;
  const int cluster = chosen->kernel.shape.cluster;
  const Limits limits = machine_.limits();
  const int room = cluster == 1 ? limits.multiprocessors : std::min(limits.multiprocessors, cluster * limits.clusters);
  const int together = chosen->blocks(problem_.sides) <= room ? problem_.sides : 1;
  for (int s = 0; s < problem_.sides; s += together) {
    if (s > 0) p.side[0] = p.side[s];
    machine_.run(chosen->kernel, {chosen->blocks(together), chosen->threads, chosen->shared_bytes}, p);
  }
}

void Steps::single_steps(bool backward, const Parameters& p, int side) {
  const KernelShape shape{problem_.recurrence, backward, problem_.precision};
  allocate_sums();
  const int phases = problem_.recurrence == Recurrence::kCanonicalGru ? 2 : 1;
  for (int turn = 0; turn < p.steps; ++turn) {
    const int step = backward ? p.steps - 1 - turn : turn;
    for (int phase = 0; phase < phases; ++phase) {
      int gates = 0;
      int columns = 0;
      with_cell(shape, [&]<class Cell>(Cell) {
        gates = Cell::gates(phase);
        columns = Cell::columns(phase, p.hidden);
      });
      const StepSource source = source_of(shape, p, side, phase, step);
      MatrixJob job;
      job.left = source.rows;
      job.left_row = source.stride;
      job.left_column = 1;
      job.right = source.matrix;
      job.right_row = backward ? p.hidden : 1;
      job.right_column = backward ? 1 : p.hidden;
      job.result = sums_;
      job.result_row = static_cast<long long>(gates) * p.hidden;
      job.rows = p.batch;
      job.columns = gates * p.hidden;
      job.depth = source.rows != nullptr ? columns : 0;
      machine_.multiply(job, problem_.precision);
      machine_.single_step(shape, phase, p, side, step, sums_);
    }
  }
}

}  // namespace millrace::rnn
