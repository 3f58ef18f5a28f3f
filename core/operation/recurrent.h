// Cells that walk through time: LSTM, GRU and the plain ones.
//
//   const Recurrent cell{.cell = CellKind::kGru, .hidden = 256};
//
// What every operation states about itself, and who asks, is in operation.h.
#pragma once

#include <span>
#include <vector>

#include "core/base/field_kinds.h"
#include "core/operation/parameter.h"
#include "core/operation/shape_rules.h"
#include "core/operation/traits.h"

namespace millrace {

enum class CellKind { kLstm, kGru, kVanillaRelu, kVanillaTanh };
// What bounds the gates of LSTM and GRU.
enum class GateActivation { kSigmoid, kHardSigmoid };
// Products of input and state that a step needs for each hidden unit.
int64_t gates_of(CellKind cell);

struct Recurrent {
  CellKind cell = CellKind::kLstm;
  int64_t hidden = 0;
  int64_t projection = 0;      // LSTM only; 0: none
  bool bidirectional = false;  // output channels double
  bool reset_after = false;    // GRU only: the reset gate after the recurrent product, as cuDNN computes it
  bool stateful = false;       // h is kept between mini-batches
  int64_t truncation = 0;      // no error passes a step whose index is a multiple of it; 0: errors go back to the first step
  GateActivation gate_activation = GateActivation::kSigmoid;
  double gate_slope = 0.2;  // of the hard sigmoid: slope * x + 0.5, held to [0, 1]
  bool operator==(const Recurrent&) const = default;

  static constexpr Role kRole = Role::kRecurrence;
  static constexpr bool kDivides = false;
  static std::vector<Recurrent> kinds();
  Traits traits() const;
  int64_t directions() const { return bidirectional ? 2 : 1; }
  // What a step hands to the next one and to the layer behind.
  int64_t features() const { return projection > 0 ? projection : hidden; }
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const;
  int64_t weight_uses(const Shape& output) const { return output.height; }
  // The products x W of all gates.
  int64_t sum_channels(const Shape&) const { return gates_of(cell) * hidden * directions(); }

  static void fields(auto& v) {
    using enum text::Presence;
    v.field("hidden", &Recurrent::hidden, kRequired, text::kSize);
    v.field("projection", &Recurrent::projection, kDefaulted, text::kOptionalSize);
    v.field("bidirectional", &Recurrent::bidirectional, kDefaulted);
    v.field("reset_after", &Recurrent::reset_after, kDefaulted);
    v.field("stateful", &Recurrent::stateful, kDefaulted);
    v.field("truncation", &Recurrent::truncation, kDefaulted, text::kOptionalSize);
    v.field("gate_activation", &Recurrent::gate_activation, kDefaulted);
    v.field("gate_slope", &Recurrent::gate_slope, kDefaulted, text::kPositive);
  }
  void check(const text::Path& where) const;
};

using Recurrences = Operations<Recurrent>;

}  // namespace millrace
