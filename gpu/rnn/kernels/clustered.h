// The persistent kernel for blocks in clusters (compute capability 9.0 and later), where many blocks would poll the same states: the blocks
// of a cluster divide the columns of their common product, so that every state is polled by one of them and the L2 cache is asked once a
// cluster. What they hand to each other are sums, through distributed shared memory, each straight to the block that owns its unit.
//
//   using Kernel = Clustered<LstmForward<float>, FmaProduct<4, 32, 4, 1>, 8>;
//   Kernel::run(parameters);                 // unit_tiles is a multiple of 8, launched in clusters of 8 blocks
//
// Per product: gather the block's columns, a block barrier, multiply by the rows of all units of the cluster, send each sum to its owner,
// a block barrier; the owners' warps wait at their mailbox until all sums are there. Sums and mailboxes are there twice and take turns. No
// block is two turns ahead of another one of its cluster, for it waits in every turn for the sums of all of them; so nobody writes what is
// still read. Whoever gives up waiting for a state goes on without waiting, to the end: a block that left would be missed. One product per
// step. tile_width * height threads at least.
#pragma once

#include "gpu/rnn/kernels/gate_lanes.h"
#include "gpu/rnn/kernels/gru_cells.h"
#include "gpu/rnn/kernels/persistent.h"

namespace millrace::rnn {

template <class Cell, class Product, int kBlocks>
struct Clustered {
  using Scalar = typename Cell::Scalar;
  using Lanes = UnitLanes<Cell>;
  static constexpr int kHeight = Product::kHeight;
  static constexpr int kSums = Product::kSums;
  static constexpr int kInFlight = kHeight > 1 ? 2 : 1;
  static constexpr int kTurns = least(Lanes::kCount, ceil_of(Product::kSumsOfThread, kBlocks));
  static_assert(Cell::kPhases == 1, "blocks of a cluster divide one product");

  struct Plans {
    SharedPlan plan;
    int sums;       // [turn][block and slice][sample][row of the block's units]
    int sum_bytes;  // of a turn
    int mailboxes;
    int hung;
    int bytes;
  };
  static constexpr MILLRACE_HOST_DEVICE Plans plans(int hidden, int threads, int slices) {
    Plans plans{};
    plans.plan = Product::plan(columns_in_cluster(Cell::columns(0, hidden), kBlocks), threads, slices, 0);
    plans.sums = plans.plan.bytes;
    plans.sum_bytes = rounded_up(slices * kHeight * plans.plan.rows * 4, 16);
    plans.mailboxes = plans.sums + 2 * plans.sum_bytes;
    plans.hung = plans.mailboxes + 2 * static_cast<int>(sizeof(device::Mailbox));
    plans.bytes = plans.hung + 16;
    return plans;
  }
  static constexpr MILLRACE_HOST_DEVICE int shared_bytes(int hidden, int threads, int slices) {
    return plans(hidden, threads, slices).bytes;
  }

  MILLRACE_DEVICE static void run(const Parameters& p) {
    unsigned char* const shared = device::shared_memory();
    const int thread = device::thread_index();
    const int threads = device::thread_count();
    const Plans plans = Clustered::plans(p.hidden, threads, p.slices);
    const BlockPlace place = place_of_block(device::block_index(), p.unit_tiles, p.sample_tiles);
    const Side& side = p.side[place.side];
    const int rank = device::cluster_rank();
    const int first_unit = place.unit_tile * p.tile_width;
    const int units = least(p.tile_width, p.hidden - first_unit);
    const int own_rows = Cell::gates(0) * p.tile_width;
    auto* const hung = reinterpret_cast<unsigned*>(shared + plans.hung);
    auto* const mailboxes = reinterpret_cast<device::Mailbox*>(shared + plans.mailboxes);
    if (thread == 0) {
      *hung = 0;
      device::open(mailboxes);
      device::open(mailboxes + 1);
    }

    // The block's columns, of all units of the cluster.
    const int columns = Cell::columns(0, p.hidden);
    const int most = columns_in_cluster(columns, kBlocks);
    const int here = greatest(0, least(most, columns - rank * most));
    const int first_column = here > 0 ? rank * most : 0;
    const Turns turns = turns_of(here / kElements<Scalar>);
    const int first_of_cluster = (place.unit_tile - rank) * p.tile_width;
    const int units_of_cluster = least(kBlocks * p.tile_width, p.hidden - first_of_cluster);
    Product product;
    const int stride = Cell::kForward ? p.hidden : 1;
    const int gate_stride = Cell::kForward ? p.hidden * p.hidden : 0;
    product.load({Cell::matrix(side, 0, p.hidden), stride, gate_stride, Cell::kForward ? 1 : p.hidden, Cell::gates(0), here,
                  first_of_cluster, units_of_cluster, first_column},
                 shared, plans.plan, p.slices);
    device::cluster_barrier();

    // Where the thread's sums go: a bit says which of them are somebody's.
    device::Registers<device::ClusterAddress, kSums> to;
    device::Registers<device::ClusterAddress, kSums> counted;
    unsigned sends = 0;
    product.each_sum(plans.plan, p.slices, [&](int number, int slice, int sample, int row) {
      const bool there = row < kBlocks * own_rows;
      const int owner = there ? row / own_rows : 0;
      const int word = there ? ((rank * p.slices + slice) * kHeight + sample) * own_rows + row - owner * own_rows : 0;
      to[number] = device::in_cluster(shared + plans.sums + 4 * word, owner);
      counted[number] = device::in_cluster(mailboxes, owner);
      if (there) sends |= 1U << static_cast<unsigned>(number);
    });
    const int slices = kBlocks * p.slices;

    // What this thread owns: a unit of one of the round's samples, or gates of some.
    const int lane = thread % Lanes::kCount;
    device::Registers<int, kTurns> index;
    device::Registers<int, kTurns> unit;
    MILLRACE_UNROLL
    for (int k = 0; k < kTurns; ++k) {
      const int place_of_unit = (thread + k * threads) / Lanes::kCount;
      index[k] = place_of_unit / p.tile_width;
      unit[k] = place_of_unit % p.tile_width;
    }
    int use = 0;
    for (int turn = 0; turn < p.steps; ++turn) {
      const int step = Cell::kForward ? turn : p.steps - 1 - turn;
      for (int round = 0; round < p.rounds; ++round) {
        const int base = sample_of(round, p.sample_tiles, place.sample_tile, kHeight, 0);
        const int rows = least(kHeight, p.batch - base);
        if (rows < 1) continue;  // the same for the whole cluster
        const int now = use & 1;
        const int phase = use >> 1 & 1;
        ++use;
        if (thread == 0) device::expect(mailboxes + now, slices * own_rows * rows * 4);
        const auto standing = [&](int k) { return Standing{p, side, step, base + index[k], first_unit + unit[k]}; };
        const auto owns = [&](int k) { return index[k] < rows && unit[k] < units; };
        device::Registers<typename Lanes::Type, kTurns> cells{};
        MILLRACE_UNROLL
        for (int k = 0; k < kTurns; ++k) {
          if constexpr (Lanes::kCount > 1) {
            if (owns(k)) cells[k].prefetch(standing(k), lane);
          } else {
            if (owns(k)) cells[k].prefetch(standing(k));
          }
        }
        // Made anew: two numbers stay in registers from step to step, not six.
        const SharedPlan plan = Product::plan_with(device::computed_here(plans.plan.rows), device::computed_here(plans.plan.beyond), most,
                                                   threads, p.slices, 0);
        take_states(p, side, step, base, rows, device::computed_here(here), device::computed_here(first_column), turns, shared, plan, hung);
        device::block_barrier();
        product.multiply_to(shared, plan, device::computed_here(most), p.slices, [&](int number, int, int sample, int, float sum) {
          if ((sends >> static_cast<unsigned>(number) & 1U) != 0 && sample < rows)
            device::send(to[number] + now * plans.sum_bytes, counted[number] + now * static_cast<int>(sizeof(device::Mailbox)), sum);
        });
        device::block_barrier();
        const auto* const sums = reinterpret_cast<const float*>(shared + plans.sums + now * plans.sum_bytes);
        MILLRACE_UNROLL
        for (int k = 0; k < kTurns; ++k) {
          // The same for the whole warp; the first one always waits, so that no block ends before all is there.
          if (k * threads + device::warp_index() * device::kWarp >= Lanes::kCount * kHeight * p.tile_width) break;
          device::await(mailboxes + now, phase);
          const float* const mine = sums + (owns(k) ? index[k] * own_rows + row_of_unit(Cell::gates(0), unit[k], 0) : 0);
          if constexpr (Lanes::kCount > 1) {
            cells[k].finish(owns(k), standing(k), lane, sum_of_slices(mine + (owns(k) ? lane : 0), slices, kHeight * own_rows));
          } else {
            if (owns(k))
              cells[k].template finish<0>(standing(k), [&](int gate) { return sum_of_slices(mine + gate, slices, kHeight * own_rows); });
          }
        }
      }
    }
  }

 private:
  MILLRACE_DEVICE static void take_states(const Parameters& p, const Side& side, int step, int base, int rows, int columns,
                                          int first_column, const Turns& turns, unsigned char* shared, const SharedPlan& plan,
                                          unsigned* hung) {
    if (columns < 1) return;  // a cluster's last block of few columns
    const Source<Scalar> source = Cell::source(p, side, 0, step);
    const Placing<Product> place{shared, plan};
    if (source.rows == nullptr) {
      for (int i = device::thread_index(); i < rows * columns; i += device::thread_count()) place.one(i / columns, i % columns, Scalar{});
      return;
    }
    const Scalar* const from = source.rows + static_cast<long long>(base) * source.stride + first_column;
    const bool aligned =
        columns % kElements<Scalar> == 0 && source.stride % kElements<Scalar> == 0 && reinterpret_cast<unsigned long long>(from) % 16 == 0;
    Waiting waiting(p.hung, source.complete || device::is_raised_in_block(hung) ? 0 : p.patience, step);
    gather<kHeight == 1, kInFlight>(from, rows, source.stride, columns, turns, aligned, place, waiting);
    if (!waiting.ended_well) device::raise_in_block(hung);
  }
};

}  // namespace millrace::rnn
