// The persistent kernel: all steps of a recurrent layer in one launch, weights resident in registers and shared memory,
// one exchange between blocks per product.
//
//   using Kernel = Persistent<LstmForward<float>, FmaProduct<4, 32, 32, 1>>;
//   Kernel::run(parameters);                 // in a block of any number of whole warps that hold its rows
//   Kernel::shared_bytes(hidden, threads, slices)
//
// A block computes the new states of tile_width units for `height` samples at a time; all blocks must be resident at once
// (a cooperative launch). Per product: gather the sequence's newest rows into shared memory, a block barrier, multiply, a
// block barrier, and the threads that own a unit finish it, an LSTM's by a lane per gate. Every barrier is met by all threads of
// a block, also of blocks whose samples have run out. tile_width * height threads at least.
#pragma once

#include "gpu/rnn/kernels/gate_lanes.h"
#include "gpu/rnn/kernels/gru_cells.h"
#include "gpu/rnn/kernels/product.h"

namespace millrace::rnn {

struct NoProduct {};

// Where gather() puts states: a product's part of shared memory.
template <class Product>
struct Placing {
  unsigned char* shared;
  const SharedPlan& plan;
  MILLRACE_DEVICE void one(int row, int column, typename Product::Scalar value) const {
    *reinterpret_cast<typename Product::Scalar*>(shared + Product::place_of_state(plan, row, column)) = value;
  }
  MILLRACE_DEVICE void four(int row, int column, const device::Four& values) const {
    device::store_four(shared + Product::place_of_state(plan, row, column), values);
  }
};

template <class Cell, class First, class Second = NoProduct>
struct Persistent {
  using Scalar = typename Cell::Scalar;
  static constexpr int kHeight = First::kHeight;
  static constexpr bool kTwoPhases = Cell::kPhases == 2;

  // All that 256 threads ask for of 1,024 units at once, and no more registers than that: of two phases' the weights leave fewer.
  static constexpr int kInFlight = kHeight > 1 ? (kTwoPhases ? 2 : 4) : Cell::kForward ? 2 : greatest(2, Cell::kGates);

  // Lanes that finish a unit together, and how many units at most one after the other: a block has a thread per unit and sample.
  using Lanes = UnitLanes<Cell>;
  static constexpr int kTurns = least(Lanes::kCount, First::kSumsOfThread);

  struct Plans {
    SharedPlan plan[2];
    int hung;
    int bytes;
  };

  static constexpr MILLRACE_HOST_DEVICE Plans plans(int hidden, int threads, int slices) {
    Plans plans{};
    plans.plan[0] = First::plan(Cell::columns(0, hidden), threads, slices, 0);
    plans.hung = plans.plan[0].bytes;
    if constexpr (kTwoPhases) {
      plans.plan[1] = Second::plan(Cell::columns(1, hidden), threads, slices, plans.plan[0].bytes);
      plans.hung = plans.plan[1].bytes;
    }
    plans.bytes = plans.hung + 16;
    return plans;
  }
  static constexpr MILLRACE_HOST_DEVICE int shared_bytes(int hidden, int threads, int slices) {
    return plans(hidden, threads, slices).bytes;
  }

  MILLRACE_DEVICE static void run(const Parameters& p) {
    unsigned char* const shared = device::shared_memory();
    const Plans plans = Persistent::plans(p.hidden, device::thread_count(), p.slices);
    const BlockPlace place = place_of_block(device::block_index(), p.unit_tiles, p.sample_tiles);
    const Side& side = p.side[place.side];
    const int first_unit = place.unit_tile * p.tile_width;
    const int units = least(p.tile_width, p.hidden - first_unit);
    auto* const hung = reinterpret_cast<unsigned*>(shared + plans.hung);
    const Turns turns[2] = {turns_of(Cell::columns(0, p.hidden) / kElements<Scalar>),
                            turns_of(Cell::columns(Cell::kPhases - 1, p.hidden) / kElements<Scalar>)};
    if (device::thread_index() == 0) *hung = 0;

    First first;
    first.load(resident(p, side, 0, first_unit, units), shared, plans.plan[0], p.slices);
    Second second;
    if constexpr (kTwoPhases) second.load(resident(p, side, 1, first_unit, units), shared, plans.plan[1], p.slices);
    device::block_barrier();

    // What this thread owns: a unit of one of the round's samples, or gates of some.
    const int lane = device::thread_index() % Lanes::kCount;
    device::Registers<Owned, kTurns> owned;
    device::Registers<int, kTurns> sum_words;  // of a gate's lane: where its first slice's sum lies
    const int wanted = Lanes::kCount * least(kHeight, p.batch) * p.tile_width;
    int takes_part = 0;  // a bit per turn, the same for the whole warp
    const int slices = device::computed_here(p.slices);
    MILLRACE_UNROLL
    for (int k = 0; k < kTurns; ++k) {
      const int place_of_unit = (device::thread_index() + k * device::thread_count()) / Lanes::kCount;
      owned[k] = {place_of_unit / p.tile_width, place_of_unit % p.tile_width};
      if (k * device::thread_count() + device::warp_index() * device::kWarp < wanted) takes_part |= 1 << k;
      const bool there = owned[k].index < kHeight;
      sum_words[k] =
          plans.plan[0].sums / 4 + (there ? owned[k].index * plans.plan[0].rows + row_of_unit(Cell::gates(0), owned[k].unit, lane) : 0);
    }
    takes_part = device::computed_here(takes_part);
    for (int turn = 0; turn < p.steps; ++turn) {
      const int step = Cell::kForward ? turn : p.steps - 1 - turn;
      for (int round = 0; round < p.rounds; ++round) {
        const int base = sample_of(round, p.sample_tiles, place.sample_tile, kHeight, 0);
        const auto standing = [&](int k) { return Standing{p, side, step, base + owned[k].index, first_unit + owned[k].unit}; };
        const auto owns = [&](int k) { return owned[k].index < kHeight && owned[k].unit < units && base + owned[k].index < p.batch; };
        if constexpr (Lanes::kCount > 1) {
          device::Registers<typename Lanes::Type, kTurns> cells{};
          MILLRACE_UNROLL
          for (int k = 0; k < kTurns; ++k)
            if (owns(k)) cells[k].prefetch(standing(k), lane);
          if (!phase<0>(p, side, step, base, shared, again<First>(p, plans, 0), turns[0], hung, first)) return;
          MILLRACE_UNROLL
          for (int k = 0; k < kTurns; ++k) {
            if ((takes_part >> k & 1) == 0) break;
            cells[k].finish(owns(k), standing(k), lane,
                            sum_of_slices(reinterpret_cast<const float*>(shared) + sum_words[k], slices,
                                          kHeight * device::computed_here(plans.plan[0].rows)));
          }
        } else {
          const Standing at = standing(0);
          Cell cell{};
          if (owns(0)) cell.prefetch(at);
          if (!phase<0>(p, side, step, base, shared, again<First>(p, plans, 0), turns[0], hung, first)) return;
          if (owns(0)) cell.template finish<0>(at, sum_of<First>(p, plans, 0, shared, owned[0]));
          if constexpr (kTwoPhases) {
            if (!phase<1>(p, side, step, base, shared, again<Second>(p, plans, 1), turns[1], hung, second)) return;
            if (owns(0)) cell.template finish<1>(at, sum_of<Second>(p, plans, 1, shared, owned[0]));
          }
        }
      }
    }
  }

 private:
  // A unit of the block, of one of its samples.
  struct Owned {
    int index;
    int unit;
  };

  // The sums of a unit's gates, by gate.
  template <class Product>
  MILLRACE_DEVICE static auto sum_of(const Parameters& p, const Plans& plans, int which, const unsigned char* shared, const Owned& owned) {
    return [&p, &plans, which, shared, owned](int gate) {
      return Product::sum_at(shared, again<Product>(p, plans, which), p.slices, owned.index,
                             row_of_unit(Cell::gates(which), owned.unit, gate));
    };
  }

  // A phase's plan, made anew where it is wanted: two numbers stay in registers from step to step, not six.
  template <class Product>
  MILLRACE_DEVICE static SharedPlan again(const Parameters& p, const Plans& plans, int which) {
    const SharedPlan& kept = plans.plan[which];
    return Product::plan_with(device::computed_here(kept.rows), device::computed_here(kept.beyond), Cell::columns(which, p.hidden),
                              device::thread_count(), p.slices, kept.states);
  }

  MILLRACE_DEVICE static Resident<Scalar> resident(const Parameters& p, const Side& side, int phase, int first_unit, int units) {
    const int columns = Cell::columns(phase, p.hidden);
    const Scalar* const matrix = Cell::matrix(side, phase, p.hidden);
    if (Cell::kForward) return {matrix, p.hidden, p.hidden * p.hidden, 1, Cell::gates(phase), columns, first_unit, units};
    return {matrix, 1, 0, p.hidden, 1, columns, first_unit, units};
  }

  // Gathers and multiplies; false when another block never came.
  template <int kPhase, class Product>
  MILLRACE_DEVICE static bool phase(const Parameters& p, const Side& side, int step, int base, unsigned char* shared,
                                    const SharedPlan& plan, const Turns& turns, unsigned* hung, const Product& product) {
    const Source<Scalar> source = Cell::source(p, side, kPhase, step);
    const int columns = Cell::columns(kPhase, p.hidden);
    const int rows = greatest(0, least(kHeight, p.batch - base));
    const Placing<Product> place{shared, plan};
    if (source.rows == nullptr) {
      for (int i = device::thread_index(); i < rows * columns; i += device::thread_count()) place.one(i / columns, i % columns, Scalar{});
    } else {
      const Scalar* const from = source.rows + static_cast<long long>(base) * source.stride;
      const bool aligned = columns % kElements<Scalar> == 0 && source.stride % kElements<Scalar> == 0 &&
                           reinterpret_cast<unsigned long long>(from) % 16 == 0;
      Waiting waiting(p.hung, source.complete ? 0 : p.patience, step);  // what is complete is not waited for
      gather<kHeight == 1, kInFlight>(from, rows, source.stride, columns, turns, aligned, place, waiting);
      if (!waiting.ended_well) device::raise_in_block(hung);
    }
    device::block_barrier();
    const bool gone = device::is_raised_in_block(hung);  // not waited for before the products
    product.multiply(shared, plan, columns, p.slices);
    device::block_barrier();
    return !gone;
  }
};

}  // namespace millrace::rnn
