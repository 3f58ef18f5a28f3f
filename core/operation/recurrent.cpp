#include "core/operation/recurrent.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/field_rules.h"

namespace millrace {
namespace {

std::string_view word_for(CellKind cell) {
  switch (cell) {
    case CellKind::kLstm: return "lstm";
    case CellKind::kGru: return "gru";
    case CellKind::kVanillaRelu: return "rnn_relu";
    case CellKind::kVanillaTanh: return "rnn_tanh";
  }
  return "unknown";
}

}  // namespace

int64_t gates_of(CellKind cell) {
  switch (cell) {
    case CellKind::kLstm: return 4;
    case CellKind::kGru: return 3;
    case CellKind::kVanillaRelu:
    case CellKind::kVanillaTanh: return 1;
  }
  return 1;
}

std::vector<Recurrent> Recurrent::kinds() {
  return {{.cell = CellKind::kLstm}, {.cell = CellKind::kGru}, {.cell = CellKind::kVanillaRelu}, {.cell = CellKind::kVanillaTanh}};
}

Traits Recurrent::traits() const {
  return {.name = word_for(cell),
          .rows = bidirectional ? Rows::kEvery : Rows::kEarlier,
          .chunks = bidirectional ? TimeChunks::kNone : TimeChunks::kAlways,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = true,
          .keeps_state = stateful,
          .reads_tokens = false};
}

Shape Recurrent::output_shape(const ShapeRules& rules) const {
  const Shape& input = rules.sequence();
  rules.positive("hidden", hidden);
  rules.not_negative("projection", projection);
  rules.not_negative("truncation", truncation);
  const std::string& who = rules.who();
  if (projection > 0 && cell != CellKind::kLstm)
    fail(ErrorCode::kMalformed, "{}: projection is {}, but only lstm has one", who, projection);
  if (projection >= hidden)
    fail(ErrorCode::kMalformed, "{}: projection is {}; it must be below the {} hidden units", who, projection, hidden);
  if (reset_after && cell != CellKind::kGru) fail(ErrorCode::kMalformed, "{}: reset_after is set, but only gru has a reset gate", who);
  if (gate_activation != GateActivation::kSigmoid && gates_of(cell) == 1)
    fail(ErrorCode::kMalformed, "{}: gate_activation is a hard sigmoid, but only lstm and gru have gates", who);
  if (!(gate_slope > 0) || !std::isfinite(gate_slope))
    fail(ErrorCode::kMalformed, "{}: gate_slope is {}; it must be above 0", who, gate_slope);
  if (stateful && bidirectional)
    fail(ErrorCode::kMalformed, "{}: stateful and bidirectional exclude each other: the second direction starts at the end", who);
  return {features() * directions(), input.height, 1};
}

std::vector<ParameterSpec> Recurrent::parameters(std::span<const Shape> inputs) const {
  const int64_t rows = gates_of(cell) * hidden;
  std::vector<ParameterSpec> parameters;
  const TorchStart torch{.scale = 1.0 / std::sqrt(static_cast<double>(hidden))};
  const auto add = [&](const std::string& tensor, std::vector<int64_t> dimensions) {
    parameters.push_back({.tensor = tensor, .dimensions = std::move(dimensions), .torch = torch});
  };
  for (const std::string suffix : {"", "_reverse"}) {
    add("weight_ih" + suffix, {rows, inputs[0].channels});
    add("weight_hh" + suffix, {rows, features()});
    add("bias_ih" + suffix, {rows});
    add("bias_hh" + suffix, {rows});
    if (projection > 0) add("weight_hr" + suffix, {projection, hidden});
    if (!bidirectional) break;
  }
  return parameters;
}

void Recurrent::check(const text::Path& where) const {
  if (projection > 0 && cell != CellKind::kLstm)
    text::Path(where, "projection").fail("{} makes no sense here; only lstm has one", projection);
  if (reset_after && cell != CellKind::kGru) text::Path(where, "reset_after").fail("true makes no sense here; only gru has a reset gate");
  const bool hard = gate_activation != GateActivation::kSigmoid;
  if (hard && gates_of(cell) == 1)
    text::Path(where, "gate_activation").fail("HARD_SIGMOID makes no sense here; only lstm and gru have gates");
  if (!hard && gate_slope != Recurrent{}.gate_slope)
    text::Path(where, "gate_slope").fail("{} makes no sense here; only gates of HARD_SIGMOID have a slope", gate_slope);
}

}  // namespace millrace
