// The resident weights of a block and their product with states, by fused multiply-adds or by the matrix units.
//
//   FmaProduct<4, 32, 32, 1> product;              // rows, columns, threads of a group, samples
//   product.load(resident, shared);                // once: weights into registers, the rest into shared memory
//   ... states gathered into shared memory at product.place_of_state(...), a block barrier ...
//   product.multiply(shared, ...);                 // sums[slice][sample][row] in shared memory; then a block barrier
//
// Resident says which weights are the block's. Members are registers: a product lives as long as the kernel.
#pragma once

#include "gpu/rnn/kernels/exchange.h"
#include "gpu/rnn/mapping.h"

namespace millrace::rnn {

// The rows of one block: those of `gates` gates for its units, of a matrix in memory or of its transpose.
template <class Scalar>
struct Resident {
  const Scalar* matrix;
  int row_stride;   // from unit to unit
  int gate_stride;  // from gate to gate
  int column_stride;
  int gates;
  int columns;
  int first_unit;
  int units;             // of this block; rows beyond are zero
  int first_column = 0;  // `columns` from there on

  // Where a row begins, in elements, and how many columns it has: none beyond the block's units. Two numbers of 32 bits per
  // row are all that loading keeps beside the weights; addresses of 64 bits made kernels spill. They count up to 23,170
  // units, ten times what a chip holds.
  struct Row {
    int first;
    int columns;
  };
  MILLRACE_DEVICE Row row(int index) const {
    const int unit = unit_of_row(gates, index);
    return {(first_unit + unit) * row_stride + gate_of_row(gates, index) * gate_stride + first_column * column_stride,
            unit < units ? columns : 0};
  }
};

// Every lane loads, those beyond the block's rows and columns the first weight, which they drop: no branch stands between
// loads that wait together.
MILLRACE_DEVICE float weight_at(const Resident<float>& resident, const Resident<float>::Row& row, int column) {
  const bool there = column < row.columns;
  const float weight = device::load_constant(resident.matrix + (there ? row.first + column * resident.column_stride : 0));
  return there ? weight : 0.0F;
}
template <class Scalar>
MILLRACE_DEVICE unsigned weight_at(const Resident<Scalar>& resident, const typename Resident<Scalar>::Row& row, int column) {
  const bool there = column < row.columns;
  const unsigned weight = device::load_constant(
      reinterpret_cast<const unsigned short*>(resident.matrix + (there ? row.first + column * resident.column_stride : 0)));
  return there ? weight : 0U;
}

// Where a product keeps what in a block's shared memory, in bytes from its beginning.
struct SharedPlan {
  int states;
  int sums;
  int spilled;
  int bytes;
  // So that no step divides:
  int stride;  // of a sample's states, in words
  int rows;    // of the block, which is how far a sample's sums lie apart
  int beyond;  // columns of a thread in shared memory
};

// Sums `kCount` values over the lanes of a group, each lane keeping a part: every exchange halves what a lane still holds
// as long as the count is even.
template <int kCount, int kMask>
struct GroupSum {
  // Returns how many values are left; they are those from `first` on. `mine`: this lane is the one to write them.
  template <class Values>
  MILLRACE_DEVICE static void run(Values& values, int lane, int& first, bool& mine) {
    if constexpr (kMask > 0) {
      if constexpr (kCount % 2 == 0) {
        constexpr int kHalf = kCount / 2;
        const bool upper = (lane & kMask) != 0;
        MILLRACE_UNROLL
        for (int i = 0; i < kHalf; ++i) {
          const float given = upper ? values[i] : values[i + kHalf];
          values[i] = (upper ? values[i + kHalf] : values[i]) + device::shuffle_xor(given, kMask);
        }
        first += upper ? kHalf : 0;
        GroupSum<kHalf, kMask / 2>::run(values, lane, first, mine);
      } else {
        MILLRACE_UNROLL
        for (int i = 0; i < kCount; ++i) values[i] += device::shuffle_xor(values[i], kMask);
        mine = mine && (lane & kMask) == 0;
        GroupSum<kCount, kMask / 2>::run(values, lane, first, mine);
      }
    }
  }
};
// The first of the values that GroupSum leaves a lane.
template <int kCount, int kMask>
constexpr MILLRACE_HOST_DEVICE int first_left(int lane) {
  if constexpr (kMask == 0)
    return 0;
  else if constexpr (kCount % 2 == 0)
    return ((lane & kMask) != 0 ? kCount / 2 : 0) + first_left<kCount / 2, kMask / 2>(lane);
  else
    return first_left<kCount, kMask / 2>(lane);
}
template <int kCount, int kMask>
constexpr MILLRACE_HOST_DEVICE int values_left() {
  if constexpr (kMask == 0)
    return kCount;
  else
    return values_left < kCount % 2 == 0 ? kCount / 2 : kCount, kMask / 2 > ();
}

// `first`: the first slice's sum; those of the others lie `stride` apart. There is a power of two of them; eight are loaded together.
MILLRACE_DEVICE float sum_of_slices(const float* first, int slices, int stride) {
  if (slices == 1) return *first;
  constexpr int kTogether = 8;
  float sum = 0;
  if (slices < kTogether) {
    MILLRACE_NO_UNROLL
    for (int slice = 0; slice < slices; ++slice) sum += first[slice * stride];
    return sum;
  }
  MILLRACE_NO_UNROLL
  for (int slice = 0; slice < slices; slice += kTogether) {
    device::Registers<float, kTogether> some;
    MILLRACE_UNROLL
    for (int s = 0; s < kTogether; ++s) some[s] = first[(slice + s) * stride];
    sum += ((some[0] + some[1]) + (some[2] + some[3])) + ((some[4] + some[5]) + (some[6] + some[7]));
  }
  return sum;
}

template <int kRows, int kColumns, int kGroup, int kSamples>
struct FmaProduct {
  using Scalar = float;
  static constexpr MILLRACE_HOST_DEVICE FmaTile tile() { return {kRows, kColumns, kGroup, kSamples}; }
  static constexpr int kHeight = kSamples;
  static constexpr int kSumsOfThread = (kRows * kSamples + kGroup - 1) / kGroup;  // most, when a block's threads take turns at them

  static constexpr MILLRACE_HOST_DEVICE SharedPlan plan(int columns, int threads, int slices, int from) {
    return plan_with(rows_per_block(tile(), slices, threads), spilled_columns(tile(), slices, columns), columns, threads, slices, from);
  }
  // The same from the two numbers that divisions bring.
  static constexpr MILLRACE_HOST_DEVICE SharedPlan plan_with(int rows, int beyond, int, int threads, int slices, int from) {
    SharedPlan plan{};
    plan.rows = rows;
    plan.beyond = beyond;
    plan.stride = (kColumns + beyond) * kGroup * slices;
    plan.states = from;
    plan.sums = plan.states + kSamples * plan.stride * 4;
    plan.spilled = plan.sums + rounded_up(slices * kSamples * rows * 4, 16);
    plan.bytes = plan.spilled + beyond * kRows * threads * 4;
    return plan;
  }

  MILLRACE_DEVICE void load(const Resident<float>& resident, unsigned char* shared, const SharedPlan& plan, int slices) {
    const int thread = device::thread_index();
    const int threads = device::thread_count();
    row_group_ = thread / kGroup / slices;
    thread_ = device::computed_here(thread);
    device::Registers<Resident<float>::Row, kRows> rows;
    MILLRACE_UNROLL
    for (int r = 0; r < kRows; ++r) rows[r] = resident.row(row_of(tile(), slices, thread, r));
    MILLRACE_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      MILLRACE_UNROLL
      for (int r = 0; r < kRows; ++r) weights_[r][j] = weight_at(resident, rows[r], column_of(tile(), slices, thread, j));
      if (j % kVector == kVector - 1) device::keep_order();
    }
    auto* const spilled = reinterpret_cast<float*>(shared + plan.spilled);
    for (int j = kColumns; j < kColumns + plan.beyond; ++j) {  // also those that a cluster's last block has not
      MILLRACE_UNROLL
      for (int r = 0; r < kRows; ++r)
        spilled[spilled_word(tile(), threads, thread, r, j)] = weight_at(resident, rows[r], column_of(tile(), slices, thread, j));
    }
    auto* const states = reinterpret_cast<float*>(shared + plan.states);
    for (int i = thread; i < kSamples * plan.stride; i += threads) states[i] = 0;
  }

  // In bytes; every fourth column of every sample begins at a multiple of 16.
  MILLRACE_DEVICE static int place_of_state(const SharedPlan& plan, int sample, int column) {
    return plan.states + (sample * plan.stride + column) * 4;
  }

  // Into the block's own shared memory.
  MILLRACE_DEVICE void multiply(unsigned char* shared, const SharedPlan& plan, int columns, int slices) const {
    auto* const out = reinterpret_cast<float*>(shared + plan.sums);
    multiply_to(shared, plan, columns, slices,
                [&](int, int slice, int sample, int row, float sum) { out[(slice * kSamples + sample) * plan.rows + row] = sum; });
  }

  // The thread's sums by number, as multiply_to() gives them, to place(number, slice, sample, row): once, before the steps.
  static constexpr int kSums = values_left<kRows * kSamples, kGroup / 2>();
  template <class Place>
  MILLRACE_DEVICE void each_sum(const SharedPlan&, int slices, Place place) const {
    const int first = first_left<kRows * kSamples, kGroup / 2>(thread_);
    const int slice = thread_ / kGroup - row_group_ * slices;
    MILLRACE_UNROLL
    for (int i = 0; i < kSums; ++i) place(i, slice, (first + i) % kSamples, row_group_ * kRows + (first + i) / kSamples);
  }

  // give(number, slice, sample, row, sum): every row's sum for every sample, by one thread each.
  template <class Give>
  MILLRACE_DEVICE void multiply_to(unsigned char* shared, const SharedPlan& plan, int, int slices, Give give) const {
    struct alignas(16) Vector {
      float at[kVector];
    };
    const int thread = thread_;
    const int threads = device::thread_count();
    const auto* const states = reinterpret_cast<const Vector*>(shared + plan.states);
    const int stride = plan.stride / kVector;
    const int slice = thread / kGroup - row_group_ * slices;
    const int own = slice * kGroup + thread % kGroup;  // column_of() without its division, in vectors
    const int turn = slices * kGroup;
    device::Registers<float, kRows * kSamples> sums;
    MILLRACE_UNROLL
    for (int i = 0; i < kRows * kSamples; ++i) sums[i] = 0;
    MILLRACE_UNROLL
    for (int j = 0; j < kColumns; j += kVector) {
      MILLRACE_UNROLL
      for (int n = 0; n < kSamples; ++n) {
        const Vector state = states[n * stride + j / kVector * turn + own];
        MILLRACE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          MILLRACE_UNROLL
          for (int v = 0; v < kVector; ++v) sums[r * kSamples + n] += weights_[r][j + v] * state.at[v];
        }
      }
      if (j % (4 * kVector) == 3 * kVector || kSamples > 2) device::keep_order();
    }
    const auto* const spilled = reinterpret_cast<const Vector*>(shared + plan.spilled);
    for (int j = kColumns; j < kColumns + plan.beyond; j += kVector) {
      device::Registers<Vector, kRows> weights;
      MILLRACE_UNROLL
      for (int r = 0; r < kRows; ++r) weights[r] = spilled[spilled_word(tile(), threads, thread, r, j) / kVector];
      MILLRACE_UNROLL
      for (int n = 0; n < kSamples; ++n) {
        const Vector state = states[n * stride + j / kVector * turn + own];
        MILLRACE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          MILLRACE_UNROLL
          for (int v = 0; v < kVector; ++v) sums[r * kSamples + n] += weights[r].at[v] * state.at[v];
        }
      }
    }
    int first = 0;
    bool mine = true;
    GroupSum<kRows * kSamples, kGroup / 2>::run(sums, thread, first, mine);
    if (!mine) return;
    MILLRACE_UNROLL
    for (int i = 0; i < kSums; ++i) {
      const int index = first + i;
      give(i, slice, index % kSamples, row_group_ * kRows + index / kSamples, sums[i]);
    }
  }

  // The sum of a row for a sample.
  MILLRACE_DEVICE static float sum_at(const unsigned char* shared, const SharedPlan& plan, int slices, int sample, int row) {
    return sum_of_slices(reinterpret_cast<const float*>(shared + plan.sums) + sample * plan.rows + row, slices, kSamples * plan.rows);
  }

 private:
  device::Registers<device::Registers<float, kColumns>, kRows> weights_;
  int row_group_;  // of those that share rows: the one number of a thread's place that a division brings
  int thread_;     // stays in a register: asking for it takes as long as shared memory does
};

template <class ShortScalar, int kRows, int kDepth, int kGroupsOfSamples>
struct MatrixProduct {
  using Scalar = ShortScalar;
  static constexpr MILLRACE_HOST_DEVICE MatrixTile tile() { return {kRows, kDepth, kGroupsOfSamples}; }
  static constexpr int kHeight = kGroupsOfSamples * device::kFragmentSamples;
  static constexpr int kSumsOfThread = kRows * kGroupsOfSamples * device::kFragmentRows * device::kFragmentSamples / device::kWarp;

  static constexpr MILLRACE_HOST_DEVICE SharedPlan plan(int columns, int threads, int slices, int from) {
    return plan_with(rows_per_block(tile(), slices, threads), 0, columns, threads, slices, from);
  }
  static constexpr MILLRACE_HOST_DEVICE SharedPlan plan_with(int rows, int, int columns, int, int slices, int from) {
    SharedPlan plan{};
    plan.rows = rows;
    plan.stride = matrix_state_stride(columns);
    plan.states = from;
    plan.sums = plan.states + rounded_up(kHeight * plan.stride * 4, 16);
    plan.spilled = plan.sums + rounded_up(slices * kHeight * rows * 4, 16);
    plan.bytes = plan.spilled;
    return plan;
  }

  MILLRACE_DEVICE void load(const Resident<Scalar>& resident, unsigned char* shared, const SharedPlan& plan, int slices) {
    const int thread = device::thread_index();
    row_group_ = device::warp_index() / slices;
    // A lane's elements of a fragment lie in two rows.
    device::Registers<device::Registers<typename Resident<Scalar>::Row, 2>, kRows> rows;
    MILLRACE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      MILLRACE_UNROLL
      for (int word = 0; word < 2; ++word) rows[r][word] = resident.row(row_of(tile(), slices, thread, r, 2 * word));
    }
    MILLRACE_UNROLL
    for (int d = 0; d < kDepth; ++d) {
      MILLRACE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        MILLRACE_UNROLL
        for (int word = 0; word < 4; ++word) {
          const int column = column_of(tile(), slices, thread, d, 2 * word);
          weights_[r][d][word] = weight_at(resident, rows[r][word % 2], column) | weight_at(resident, rows[r][word % 2], column + 1) << 16U;
        }
        device::keep_order();
      }
    }
    auto* const states = reinterpret_cast<unsigned*>(shared + plan.states);
    for (int i = thread; i < kHeight * plan.stride; i += device::thread_count()) states[i] = 0;
  }

  // In bytes; every eighth column of every sample begins at a multiple of 16.
  MILLRACE_DEVICE static int place_of_state(const SharedPlan& plan, int sample, int column) {
    return plan.states + sample * plan.stride * 4 + column * 2;
  }

  // As FmaProduct's.
  MILLRACE_DEVICE void multiply(unsigned char* shared, const SharedPlan& plan, int columns, int slices) const {
    auto* const out = reinterpret_cast<float*>(shared + plan.sums);
    const int rows = plan.rows;
    multiply_to(shared, plan, columns, slices,
                [&](int, int slice, int sample, int row, float sum) { out[(slice * kHeight + sample) * rows + row] = sum; });
  }

  static constexpr int kSums = kRows * kGroupsOfSamples * 4;
  template <class Place>
  MILLRACE_DEVICE void each_sum(const SharedPlan&, int slices, Place place) const {
    const int slice = device::warp_index() - row_group_ * slices;
    MILLRACE_UNROLL
    for (int k = 0; k < kSums; ++k) {
      const device::Place at = device::place_in_sums(device::lane_index(), k % 4);
      place(k, slice, k / 4 % kGroupsOfSamples * device::kFragmentSamples + at.column,
            (row_group_ * kRows + k / 4 / kGroupsOfSamples) * device::kFragmentRows + at.row);
    }
  }

  template <class Give>
  MILLRACE_DEVICE void multiply_to(unsigned char* shared, const SharedPlan& plan, int columns, int slices, Give give) const {
    const int lane = device::lane_index();
    const unsigned char* const states = shared + plan.states;
    const int stride = plan.stride;
    const int slice = device::warp_index() - row_group_ * slices;
    const device::Place place = device::place_in_right(lane, 0);
    // Products wait for the ones before that add to the same sums: two sets of them take turns.
    device::Registers<device::Registers<device::Registers<float[4], kGroupsOfSamples>, kRows>, 2> sums;
    MILLRACE_UNROLL
    for (int r = 0; r < 2 * kRows * kGroupsOfSamples; ++r) {
      MILLRACE_UNROLL
      for (int i = 0; i < 4; ++i) sums[r % 2][r / 2 % kRows][r / 2 / kRows][i] = 0;
    }
    const int turn = device::computed_here(slices) * device::kFragmentDepth;
    int column = device::computed_here(slice) * device::kFragmentDepth;
    MILLRACE_UNROLL
    for (int first = 0; first < kDepth; first += kTogether) {
      if (column >= columns) break;  // the same for the whole warp
      // Loads of some fragments wait together, those beyond the columns bring zeros.
      device::Registers<device::Registers<unsigned[2], kGroupsOfSamples>, kTogether> right;
      MILLRACE_UNROLL
      for (int t = 0; t < kTogether; ++t, column += turn) {
        MILLRACE_UNROLL
        for (int n = 0; n < kGroupsOfSamples; ++n) {
          const int word = (n * device::kFragmentSamples + place.column) * stride + (column + place.row) / 2;
          right[t][n][0] = column < columns ? pair_at(states, word) : 0;
          right[t][n][1] = column < columns ? pair_at(states, word + 4) : 0;
        }
      }
      MILLRACE_UNROLL
      for (int t = 0; t < kTogether && first + t < kDepth; ++t) {
        MILLRACE_UNROLL
        for (int n = 0; n < kGroupsOfSamples; ++n) {
          MILLRACE_UNROLL
          for (int r = 0; r < kRows; ++r) device::multiply_16x8x16(sums[t % 2][r][n], weights_[r][first + t], right[t][n], Scalar{});
        }
      }
      device::keep_order();
    }
    MILLRACE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int first_row = (row_group_ * kRows + r) * device::kFragmentRows;
      MILLRACE_UNROLL
      for (int n = 0; n < kGroupsOfSamples; ++n) {
        MILLRACE_UNROLL
        for (int i = 0; i < 4; ++i) {
          const device::Place at = device::place_in_sums(lane, i);
          give((r * kGroupsOfSamples + n) * 4 + i, slice, n * device::kFragmentSamples + at.column, first_row + at.row,
               sums[0][r][n][i] + sums[1][r][n][i]);
        }
      }
    }
  }

  MILLRACE_DEVICE static float sum_at(const unsigned char* shared, const SharedPlan& plan, int slices, int sample, int row) {
    return sum_of_slices(reinterpret_cast<const float*>(shared + plan.sums) + sample * plan.rows + row, slices, kHeight * plan.rows);
  }

 private:
  static constexpr int kTogether = least(kGroupsOfSamples == 1 ? 8 : 4, kDepth);  // fragments whose states are loaded together

  MILLRACE_DEVICE static unsigned pair_at(const unsigned char* states, int word) {
    return device::load_pair(reinterpret_cast<const unsigned short*>(states) + 2 * word);
  }

  device::Registers<device::Registers<unsigned[4], kDepth>, kRows> weights_;
  int row_group_;  // of those that share rows: the one number of a thread's place that a division brings
};

}  // namespace millrace::rnn
