// The canonical GRU with one exchange per step (GRNN's single barrier). A block computes the reset and update gates of its
// units; of the candidate's product it takes its units' columns, which need its own reset states alone, and publishes
// partial sums for every unit of the layer. Every block then adds up all partial sums and has the whole new state. It
// pays with reads that grow with the number of blocks: worth it for small layers, as the performance model says.
//
//   using Kernel = GruOneExchange<FmaProduct<4, 8, 32, 1>, 8, 2>;   // product of r and z; units of a block; outputs of a thread
//
// Partial sums lie in two slots that take turns. A block raises its flag for a step when its partial sums are written; it
// writes a slot again only after every block's next flag, which each raises after reading. Forward only, fp32, one round:
// sample_tiles * height samples at least; threads * outputs per thread units at most.
// Loads of a step and block, beside two per unit of its own and a flag per tile: sums of every tile, the update gates and the input's
// sums, of all units of its samples, four at a time where rows hold whole 16 bytes.
#pragma once

#include "gpu/rnn/kernels/cells.h"
#include "gpu/rnn/kernels/product.h"

namespace millrace::rnn {

// Neighbours in one access.
template <int kCount>
struct alignas(4U * static_cast<unsigned>(kCount)) Neighbours {
  device::Registers<float, kCount> value;
};
template <int kCount>
MILLRACE_DEVICE Neighbours<kCount> neighbours_at(const float* from) {
  return *reinterpret_cast<const Neighbours<kCount>*>(from);
}
MILLRACE_DEVICE bool begins_16_bytes(const void* at) { return reinterpret_cast<unsigned long long>(at) % 16 == 0; }

template <class Product, int kWidth, int kOutputs>
struct GruOneExchange {
  using Scalar = float;
  static constexpr int kHeight = Product::kHeight;

  static constexpr MILLRACE_HOST_DEVICE int shared_bytes(int hidden, int threads, int slices) {
    return Product::plan(hidden, threads, slices, 0).bytes + kHeight * kWidth * 4 + 16;
  }

  MILLRACE_DEVICE static void run(const Parameters& p) {
    unsigned char* const shared = device::shared_memory();
    const int thread = device::thread_index();
    const int threads = device::thread_count();
    const SharedPlan plan = Product::plan(p.hidden, threads, p.slices, 0);
    auto* const reset_states = reinterpret_cast<float*>(shared + plan.bytes);
    auto* const hung = reinterpret_cast<unsigned*>(shared + plan.bytes + kHeight * kWidth * 4);
    const BlockPlace place = place_of_block(device::block_index(), p.unit_tiles, p.sample_tiles);
    const Side& side = p.side[place.side];
    const int first_unit = place.unit_tile * p.tile_width;
    const int units = least(p.tile_width, p.hidden - first_unit);
    const int base = sample_of(0, p.sample_tiles, place.sample_tile, kHeight, 0);
    const int samples = greatest(0, least(kHeight, p.batch - base));
    if (thread == 0) *hung = 0;

    const auto* const weights = static_cast<const float*>(side.weights);
    Product product;
    product.load({weights, p.hidden, p.hidden * p.hidden, 1, 2, p.hidden, first_unit, units}, shared, plan, p.slices);
    device::Registers<device::Registers<float, kWidth>, kOutputs> candidate;
    MILLRACE_UNROLL
    for (int o = 0; o < kOutputs; ++o) {
      const int output = thread + o * threads;
      MILLRACE_UNROLL
      for (int u = 0; u < kWidth; ++u)
        candidate[o][u] =
            output < p.hidden && u < units ? device::load_constant(weights + (2LL * p.hidden + output) * p.hidden + first_unit + u) : 0.0F;
    }
    for (int i = thread; i < kHeight * kWidth; i += threads) reset_states[i] = 0;
    device::block_barrier();
    const auto state_at = [&](int sample, int unit) -> float& {
      return reinterpret_cast<float*>(shared + plan.states)[sample * plan.stride + unit];
    };
    if (side.first_state != nullptr)
      for (int i = thread; i < samples * p.hidden; i += threads)
        state_at(i / p.hidden, i % p.hidden) = static_cast<const float*>(side.first_state)[base * p.hidden + i];
    device::block_barrier();

    const int index = thread / p.tile_width;
    const int unit = thread % p.tile_width;
    const bool owns = index < samples && unit < units;
    const bool four =
        p.hidden % 4 == 0 && begins_16_bytes(side.gates) && begins_16_bytes(side.partial) && begins_16_bytes(side.update_gate);
    for (int step = 0; step < p.steps; ++step) {
      const int time = time_of(side, p.steps, step);
      const Standing at{p, side, step, base + index, first_unit + unit};
      float* const updates = side.update_gate + (step % 2) * p.batch * p.hidden;
      float* const partial = side.partial + static_cast<long long>(step % 2) * p.unit_tiles * p.batch * p.hidden;
      float reset_input = 0;
      float update_input = 0;
      if (owns) {
        reset_input = side.gates[at.gate_at(time, 3, 0)];
        update_input = side.gates[at.gate_at(time, 3, 1)];
      }
      product.multiply(shared, plan, p.hidden, p.slices);
      device::block_barrier();
      if (owns) {
        const float r = device::sigmoid(reset_input + Product::sum_at(shared, plan, p.slices, index, row_of_unit(2, unit, 0)));
        const float z = device::sigmoid(update_input + Product::sum_at(shared, plan, p.slices, index, row_of_unit(2, unit, 1)));
        const float rh = r * state_at(index, first_unit + unit);
        reset_states[index * kWidth + unit] = rh;
        updates[at.still_at()] = z;
        if (p.training != 0) {
          side.gates[at.gate_at(time, 3, 0)] = r;
          side.gates[at.gate_at(time, 3, 1)] = z;
          publish(static_cast<float*>(side.reset_state) + at.unit_at(time), rh);
        }
      }
      device::block_barrier();
      MILLRACE_UNROLL
      for (int o = 0; o < kOutputs; ++o) {
        const int output = thread + o * threads;
        if (output >= p.hidden) continue;
        for (int n = 0; n < samples; ++n) {
          float sum = 0;
          MILLRACE_UNROLL
          for (int u = 0; u < kWidth; ++u) sum += candidate[o][u] * reset_states[n * kWidth + u];
          partial[(static_cast<long long>(place.unit_tile) * p.batch + base + n) * p.hidden + output] = sum;
        }
      }
      device::block_barrier();
      unsigned* const flags = side.flags + place.sample_tile * p.unit_tiles;
      const auto arrived = static_cast<unsigned>(step) + 1;
      if (thread == 0) device::store_release(flags + place.unit_tile, arrived);
      Waiting waiting(p.hung, p.patience, step);
      for (int tile = thread; tile < p.unit_tiles; tile += threads)
        while (device::load_acquire(flags + tile) < arrived && waiting.again()) {
        }
      if (!waiting.ended_well) device::raise_in_block(hung);
      device::block_barrier();
      if (device::is_raised_in_block(hung)) return;
      for (int n = 0; n < samples; ++n) {
        const Standing row{p, side, step, base + n, 0};
        if (four) {
          for (int first = 4 * thread; first < p.hidden; first += 4 * threads)
            renew<4>(row, first, partial, updates, &state_at(n, first), first_unit, units);
        } else {
          for (int one = thread; one < p.hidden; one += threads) renew<1>(row, one, partial, updates, &state_at(n, one), first_unit, units);
        }
      }
      device::block_barrier();
    }
  }

 private:
  // New states of neighbouring units from `first` on, of one sample: what the block publishes of them is its own.
  template <int kCount>
  MILLRACE_DEVICE static void renew(const Standing& row, int first, const float* partial, const float* updates, float* states,
                                    int first_own, int own) {
    const Parameters& p = row.parameters;
    const int time = row.time(0);
    const Standing at{p, row.side, row.step, row.sample, first};
    const long long still = at.still_at();
    const long long tile_stride = static_cast<long long>(p.batch) * p.hidden;
    Neighbours<kCount> sums = neighbours_at<kCount>(row.side.gates + at.gate_at(time, 3, 2));
    const Neighbours<kCount> update = neighbours_at<kCount>(updates + still);
    for (int tile = 0; tile < p.unit_tiles; ++tile) {
      const Neighbours<kCount> part = neighbours_at<kCount>(partial + tile * tile_stride + still);
      MILLRACE_UNROLL
      for (int i = 0; i < kCount; ++i) sums.value[i] += part.value[i];
    }
    MILLRACE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const float fresh = device::hyperbolic_tangent(sums.value[i]);
      const float state = fresh + update.value[i] * (states[i] - fresh);
      states[i] = state;
      if (first + i < first_own || first + i >= first_own + own) continue;
      publish(static_cast<float*>(row.side.output) + at.output_at(time) + i, state);
      if (p.training != 0) row.side.candidate[at.unit_at(time) + i] = fresh;
    }
  }
};

}  // namespace millrace::rnn
