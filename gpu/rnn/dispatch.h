// From formats and recurrences known at run time to code, for hosts.
//
//   with_cell(shape, [&]<class Cell>(Cell) { SingleStep<Cell>::finish<0>(parameters, side, step, sums); });
//   with_format(precision, [&]<class Scalar>(Scalar) { ... });
#pragma once

#include <type_traits>

#include "gpu/rnn/kernels/shapes.h"
#include "gpu/rnn/machine.h"

namespace millrace::rnn {

template <class S>
constexpr Precision precision_of() {
  if constexpr (std::is_same_v<S, float>) return Precision::kFloat;
  if constexpr (std::is_same_v<S, Half>) return Precision::kHalf;
  return Precision::kBFloat16;
}

template <class Body>
void with_format(Precision precision, Body body) {
  switch (precision) {
    case Precision::kFloat: return body(float{});
    case Precision::kHalf: return body(Half{});
    case Precision::kBFloat16: return body(BFloat16{});
  }
}

template <Recurrence kRecurrence, class Body>
void with_cell_of(const KernelShape& shape, Body body) {
  with_format(shape.precision, [&]<class S>(S) {
    if (shape.backward)
      body(CellOf<kRecurrence, true, S>{});
    else
      body(CellOf<kRecurrence, false, S>{});
  });
}

template <class Body>
void with_cell(const KernelShape& shape, Body body) {
  switch (shape.recurrence) {
    case Recurrence::kLstm: return with_cell_of<Recurrence::kLstm>(shape, body);
    case Recurrence::kGru: return with_cell_of<Recurrence::kGru>(shape, body);
    case Recurrence::kCanonicalGru: return with_cell_of<Recurrence::kCanonicalGru>(shape, body);
    case Recurrence::kTanh: return with_cell_of<Recurrence::kTanh>(shape, body);
    case Recurrence::kRelu: return with_cell_of<Recurrence::kRelu>(shape, body);
  }
}

}  // namespace millrace::rnn
