// The steps of a recurrent layer, as an engine is asked for them (engine.h): the part that cannot be one product for all steps.
//
//   const RecurrenceChoice choice = engine.choose({.cell = RecurrentCell::kLstm, .samples = 8, .hidden = 256, .sides = 1});
//   engine.recurrence({.geometry = geometry, .steps = 50, .side = {{.weights = w, .gates = sums, .states = h, ...}}});
//
// Plain values; memory is the caller's, on the GPU. Nothing of CUDA, nothing that runs there.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/device/precision.h"

namespace millrace::gpu {

// Cells by the sums of their gates, in this order: lstm i f g o, gru r z n, the others one.
//   kGru           n = tanh(x W + r (h' U + b))     the reset gate behind the product
//   kCanonicalGru  n = tanh(x W + (r h') U)         before it
enum class RecurrentCell : uint8_t { kLstm, kGru, kCanonicalGru, kTanh, kRelu };
constexpr int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kGru || cell == RecurrentCell::kCanonicalGru ? 3 : 1;
}

struct RecurrenceGeometry {
  RecurrentCell cell = RecurrentCell::kLstm;
  int64_t samples = 1;
  int64_t hidden = 1;
  int64_t sides = 1;  // directions that are taken together, each in its own time
  // Of weights, states and gate errors: what is multiplied step by step. kTensorFloat32 is taken as kFloat32.
  Precision precision = Precision::kFloat32;

  int64_t sums() const { return gates_of(cell) * hidden; }
};

// How the steps of a recurrence will run, and why, in words.
struct RecurrenceChoice {
  // What calls are to be made in: that of the geometry, or kFloat32 where only such steps are taken at once.
  Precision precision = Precision::kFloat32;
  bool at_once_forward = false, at_once_back = false;  // all steps of a call in one launch, with the weights kept on the chip
  std::string forward, back;
};

// One direction's memory in a call of some steps: [step][sample][unit], gates [step][sample][gate][unit]; fp32, and what is void in the
// geometry's precision. What a cell has no use for stays null.
struct RecurrentSide {
  const void* weights = nullptr;          // [gate][unit][hidden]
  const float* candidate_bias = nullptr;  // kGru: of the state's own product, [unit]
  float* gates = nullptr;                 // forward: in what joins the state's product, out activations
  void* states = nullptr;                 // out
  const void* first_state = nullptr;      // [sample][unit], before the call's first step; null: zeros
  float* cells = nullptr;                 // lstm: out
  const float* first_cell = nullptr;
  float* candidate = nullptr;           // gru: what the error needs of the candidate
  void* reset_states = nullptr;         // canonical gru: r h'
  const float* state_errors = nullptr;  // back: of the states, what does not come from later steps
  void* gate_errors = nullptr;          // out: of the sums with the state's product
  void* input_errors = nullptr;         // kGru, out: of the sums with the input's; elsewhere those are the same
  const void* later_errors = nullptr;   // gate_errors of the step behind the call's last one; null: nothing comes from there
  float* carry = nullptr;               // [sample][unit]: what else passes from step to step; zeros where nothing comes
};

// Steps of a recurrent layer, one after the other; back in the opposite order.
struct Recurrence {
  RecurrenceGeometry geometry = {};
  bool back = false;
  int64_t steps = 0;
  RecurrentSide side[2] = {};
};

}  // namespace millrace::gpu
