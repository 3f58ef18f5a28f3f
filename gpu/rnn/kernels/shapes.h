// From a kernel's shape, as data, to its code, as a type.
//
//   using Kernel = KernelOf<Recurrence::kLstm, false, float, false, 4, 32, 32, 1>;   // what MILLRACE_... lists name
//   Kernel::run(parameters);
//
// The last four numbers of a shape are rows, columns, group and samples of FMA tiles, or rows, depth, 1 and groups of eight
// samples of matrix tiles; see mapping.h. One more, where there are clusters: their blocks. A second phase has half the rows forwards, half
// the columns backwards.
#pragma once

#include "gpu/rnn/kernels/clustered.h"
#include "gpu/rnn/kernels/gru_one_exchange.h"
#include "gpu/rnn/kernels/persistent.h"

namespace millrace::rnn {

inline constexpr int kKernelThreads = 256;  // of a block, at most: what registers are shared out for

template <Recurrence kRecurrence, bool kBackward, class S>
struct CellChoice;
template <class S>
struct CellChoice<Recurrence::kLstm, false, S> {
  using Type = LstmForward<S>;
};
template <class S>
struct CellChoice<Recurrence::kLstm, true, S> {
  using Type = LstmBackward<S>;
};
template <class S>
struct CellChoice<Recurrence::kGru, false, S> {
  using Type = GruForward<S>;
};
template <class S>
struct CellChoice<Recurrence::kGru, true, S> {
  using Type = GruBackward<S>;
};
template <class S>
struct CellChoice<Recurrence::kCanonicalGru, false, S> {
  using Type = CanonicalGruForward<S>;
};
template <class S>
struct CellChoice<Recurrence::kCanonicalGru, true, S> {
  using Type = CanonicalGruBackward<S>;
};
template <class S>
struct CellChoice<Recurrence::kTanh, false, S> {
  using Type = VanillaForward<S, false>;
};
template <class S>
struct CellChoice<Recurrence::kTanh, true, S> {
  using Type = VanillaBackward<S, false>;
};
template <class S>
struct CellChoice<Recurrence::kRelu, false, S> {
  using Type = VanillaForward<S, true>;
};
template <class S>
struct CellChoice<Recurrence::kRelu, true, S> {
  using Type = VanillaBackward<S, true>;
};
template <Recurrence kRecurrence, bool kBackward, class S>
using CellOf = typename CellChoice<kRecurrence, kBackward, S>::Type;

template <class S, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples>
struct ProductChoice {
  using Type = FmaProduct<kRows, kColumns, kGroup, kSamples>;
};
template <class S, int kRows, int kColumns, int kGroup, int kSamples>
struct ProductChoice<S, true, kRows, kColumns, kGroup, kSamples> {
  using Type = MatrixProduct<S, kRows, kColumns, kSamples>;
};

// The second phase's share of the first one's rows and columns, in whole units of what a thread or warp holds.
constexpr MILLRACE_HOST_DEVICE int second_rows(bool backward, int rows) { return backward ? rows : (rows + 1) / 2; }
constexpr MILLRACE_HOST_DEVICE int second_columns(bool backward, bool matrix_units, int columns) {
  if (!backward) return columns;
  return matrix_units ? (columns + 1) / 2 : rounded_up((columns + 1) / 2, kVector);
}

template <class Cell, bool kBackward, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples, int kPhases = Cell::kPhases>
struct KernelChoice {
  using S = typename Cell::Scalar;
  using Type = Persistent<Cell, typename ProductChoice<S, kMatrixUnits, kRows, kColumns, kGroup, kSamples>::Type>;
};
template <class Cell, bool kBackward, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples>
struct KernelChoice<Cell, kBackward, kMatrixUnits, kRows, kColumns, kGroup, kSamples, 2> {
  using S = typename Cell::Scalar;
  using Type = Persistent<Cell, typename ProductChoice<S, kMatrixUnits, kRows, kColumns, kGroup, kSamples>::Type,
                          typename ProductChoice<S, kMatrixUnits, second_rows(kBackward, kRows),
                                                 second_columns(kBackward, kMatrixUnits, kColumns), kGroup, kSamples>::Type>;
};

// By the blocks of a cluster: one is none.
template <class Cell, bool kBackward, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples, int kCluster>
struct ClusterChoice {
  using Type =
      Clustered<Cell, typename ProductChoice<typename Cell::Scalar, kMatrixUnits, kRows, kColumns, kGroup, kSamples>::Type, kCluster>;
};
template <class Cell, bool kBackward, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples>
struct ClusterChoice<Cell, kBackward, kMatrixUnits, kRows, kColumns, kGroup, kSamples, 1> {
  using Type = typename KernelChoice<Cell, kBackward, kMatrixUnits, kRows, kColumns, kGroup, kSamples>::Type;
};

template <Recurrence kRecurrence, bool kBackward, class S, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples,
          int kCluster = 1>
using KernelOf =
    typename ClusterChoice<CellOf<kRecurrence, kBackward, S>, kBackward, kMatrixUnits, kRows, kColumns, kGroup, kSamples, kCluster>::Type;

}  // namespace millrace::rnn
