// What a unit does with its sums in a step, forward and backward: one struct per recurrence and direction, whose members
// are the registers of the thread that owns the unit and the sample.
//
// Every cell has phases, each one product and one exchange: kPhases, gates(phase) rows per unit, columns(phase, hidden),
// and source(phase): the sequence that the phase's product reads. prefetch() asks for what does not depend on other
// blocks before anyone waits; finish<phase>() takes the sums, writes what training keeps and publishes the result.
// A thread owns the same unit and sample in every step, so that it reads its own earlier writes without any ordering.
#pragma once

#include "gpu/rnn/kernels/exchange.h"

namespace millrace::rnn {

enum class Recurrence { kLstm, kGru, kCanonicalGru, kTanh, kRelu };

constexpr MILLRACE_HOST_DEVICE int gates_of(Recurrence recurrence) {
  switch (recurrence) {
    case Recurrence::kLstm: return 4;
    case Recurrence::kGru:
    case Recurrence::kCanonicalGru: return 3;
    case Recurrence::kTanh:
    case Recurrence::kRelu: return 1;
  }
  return 0;
}

// Where a thread stands: a step, a sample, a unit.
struct Standing {
  const Parameters& parameters;
  const Side& side;
  int step;
  int sample;
  int unit;

  MILLRACE_DEVICE int time(int offset) const { return time_of(side, parameters.steps, step + offset); }
  MILLRACE_DEVICE bool is_first() const { return step == 0; }
  MILLRACE_DEVICE bool is_last() const { return step == parameters.steps - 1; }
  // Index of this sample's row in a sequence of the given time.
  MILLRACE_DEVICE long long row(int time) const { return static_cast<long long>(time) * parameters.batch + sample; }
  MILLRACE_DEVICE long long unit_at(int time) const { return row(time) * parameters.hidden + unit; }
  MILLRACE_DEVICE long long gate_at(int time, int gates, int gate) const { return (row(time) * gates + gate) * parameters.hidden + unit; }
  MILLRACE_DEVICE long long output_at(int time) const { return row(time) * parameters.output_stride + unit; }
  MILLRACE_DEVICE long long still_at() const { return static_cast<long long>(sample) * parameters.hidden + unit; }

  template <class Scalar>
  MILLRACE_DEVICE float earlier_state() const {
    if (!is_first()) return to_float(load_published(static_cast<const Scalar*>(side.output) + output_at(time(-1))));
    return side.first_state != nullptr ? to_float(static_cast<const Scalar*>(side.first_state)[still_at()]) : 0.0F;
  }
  MILLRACE_DEVICE float earlier_cell() const {
    if (is_first()) return side.first_cell != nullptr ? side.first_cell[still_at()] : 0.0F;
    return side.cell[parameters.cell_steps != 0 ? unit_at(time(-1)) : still_at()];
  }
  // The gradient that comes from outside the recurrence.
  MILLRACE_DEVICE float outer_gradient() const {
    const float outer = side.output_gradient[output_at(time(0))];
    return is_last() && side.last_state_gradient != nullptr ? outer + side.last_state_gradient[still_at()] : outer;
  }
};

// A sequence that a product reads: the element of a sample's row, and whether it must be waited for.
template <class Scalar>
struct Source {
  const Scalar* rows;  // of sample 0; none: all zeros
  int stride;
  bool complete;  // written before the kernel began
};

template <class Scalar>
MILLRACE_HOST_DEVICE Source<Scalar> earlier_states(const Parameters& p, const Side& side, int step) {
  if (step == 0) return {static_cast<const Scalar*>(side.first_state), p.hidden, true};
  return {static_cast<const Scalar*>(side.output) + static_cast<long long>(time_of(side, p.steps, step - 1)) * p.batch * p.output_stride,
          p.output_stride, false};
}
template <class Scalar>
MILLRACE_HOST_DEVICE Source<Scalar> gate_gradients(const Parameters& p, const Side& side, int step, int gates, int first_gate) {
  if (step == p.steps) return {nullptr, 0, true};
  return {static_cast<const Scalar*>(side.gate_gradient) +
              static_cast<long long>(time_of(side, p.steps, step)) * p.batch * gates * p.hidden + first_gate * p.hidden,
          gates * p.hidden, false};
}

template <class S>
struct LstmForward {
  using Scalar = S;
  static constexpr int kPhases = 1, kGates = 4;
  static constexpr bool kForward = true;
  static constexpr MILLRACE_HOST_DEVICE int gates(int) { return 4; }
  static constexpr MILLRACE_HOST_DEVICE int columns(int, int hidden) { return hidden; }
  MILLRACE_HOST_DEVICE static const S* matrix(const Side& side, int, int) { return static_cast<const S*>(side.weights); }
  MILLRACE_HOST_DEVICE static Source<S> source(const Parameters& p, const Side& side, int, int step) {
    return earlier_states<S>(p, side, step);
  }

  MILLRACE_DEVICE void prefetch(const Standing& at) {
    MILLRACE_UNROLL
    for (int g = 0; g < 4; ++g) input[g] = at.side.gates[at.gate_at(at.time(0), 4, g)];
    cell = at.earlier_cell();
  }
  template <int kPhase, class Sum>
  MILLRACE_DEVICE void finish(const Standing& at, Sum sum) {
    const float i = device::sigmoid(input[0] + sum(0));
    const float f = device::sigmoid(input[1] + sum(1));
    const float g = device::hyperbolic_tangent(input[2] + sum(2));
    const float o = device::sigmoid(input[3] + sum(3));
    const float c = f * cell + i * g;
    const int time = at.time(0);
    publish(static_cast<S*>(at.side.output) + at.output_at(time), o * device::hyperbolic_tangent(c));
    at.side.cell[at.parameters.cell_steps != 0 ? at.unit_at(time) : at.still_at()] = c;
    if (at.parameters.training == 0) return;
    at.side.gates[at.gate_at(time, 4, 0)] = i;
    at.side.gates[at.gate_at(time, 4, 1)] = f;
    at.side.gates[at.gate_at(time, 4, 2)] = g;
    at.side.gates[at.gate_at(time, 4, 3)] = o;
  }

  float input[4];
  float cell;
};

template <class S>
struct LstmBackward {
  using Scalar = S;
  static constexpr int kPhases = 1, kGates = 4;
  static constexpr bool kForward = false;
  static constexpr MILLRACE_HOST_DEVICE int gates(int) { return 1; }
  static constexpr MILLRACE_HOST_DEVICE int columns(int, int hidden) { return 4 * hidden; }
  MILLRACE_HOST_DEVICE static const S* matrix(const Side& side, int, int) { return static_cast<const S*>(side.weights); }
  MILLRACE_HOST_DEVICE static Source<S> source(const Parameters& p, const Side& side, int, int step) {
    return gate_gradients<S>(p, side, step + 1, 4, 0);
  }

  MILLRACE_DEVICE void prefetch(const Standing& at) {
    MILLRACE_UNROLL
    for (int g = 0; g < 4; ++g) gate[g] = at.side.gates[at.gate_at(at.time(0), 4, g)];
    cell = at.side.cell[at.unit_at(at.time(0))];
    before = at.earlier_cell();
    carry = at.side.carry[at.still_at()];
    outer = at.outer_gradient();
  }
  template <int kPhase, class Sum>
  MILLRACE_DEVICE void finish(const Standing& at, Sum sum) {
    const float dh = outer + sum(0);
    const float squashed = device::hyperbolic_tangent(cell);
    const float dc = carry + dh * gate[3] * (1 - squashed * squashed);
    S* const out = static_cast<S*>(at.side.gate_gradient);
    const int time = at.time(0);
    publish(out + at.gate_at(time, 4, 0), dc * gate[2] * gate[0] * (1 - gate[0]));
    publish(out + at.gate_at(time, 4, 1), dc * before * gate[1] * (1 - gate[1]));
    publish(out + at.gate_at(time, 4, 2), dc * gate[0] * (1 - gate[2] * gate[2]));
    publish(out + at.gate_at(time, 4, 3), dh * squashed * gate[3] * (1 - gate[3]));
    at.side.carry[at.still_at()] = dc * gate[1];
  }

  float gate[4];
  float cell, before, carry, outer;
};

// h = f(input + R h), f being tanh or the rectifier.
template <class S, bool kRectify>
struct VanillaForward {
  using Scalar = S;
  static constexpr int kPhases = 1, kGates = 1;
  static constexpr bool kForward = true;
  static constexpr MILLRACE_HOST_DEVICE int gates(int) { return 1; }
  static constexpr MILLRACE_HOST_DEVICE int columns(int, int hidden) { return hidden; }
  MILLRACE_HOST_DEVICE static const S* matrix(const Side& side, int, int) { return static_cast<const S*>(side.weights); }
  MILLRACE_HOST_DEVICE static Source<S> source(const Parameters& p, const Side& side, int, int step) {
    return earlier_states<S>(p, side, step);
  }

  MILLRACE_DEVICE void prefetch(const Standing& at) { input = at.side.gates[at.gate_at(at.time(0), 1, 0)]; }
  template <int kPhase, class Sum>
  MILLRACE_DEVICE void finish(const Standing& at, Sum sum) {
    const float a = input + sum(0);
    // Written so that a NaN stays one.
    const float h = kRectify ? (a < 0 ? 0.0F : a) : device::hyperbolic_tangent(a);
    publish(static_cast<S*>(at.side.output) + at.output_at(at.time(0)), h);
    if (at.parameters.training != 0) at.side.gates[at.gate_at(at.time(0), 1, 0)] = h;
  }

  float input;
};

template <class S, bool kRectify>
struct VanillaBackward {
  using Scalar = S;
  static constexpr int kPhases = 1, kGates = 1;
  static constexpr bool kForward = false;
  static constexpr MILLRACE_HOST_DEVICE int gates(int) { return 1; }
  static constexpr MILLRACE_HOST_DEVICE int columns(int, int hidden) { return hidden; }
  MILLRACE_HOST_DEVICE static const S* matrix(const Side& side, int, int) { return static_cast<const S*>(side.weights); }
  MILLRACE_HOST_DEVICE static Source<S> source(const Parameters& p, const Side& side, int, int step) {
    return gate_gradients<S>(p, side, step + 1, 1, 0);
  }

  MILLRACE_DEVICE void prefetch(const Standing& at) {
    state = at.side.gates[at.gate_at(at.time(0), 1, 0)];
    outer = at.outer_gradient();
  }
  template <int kPhase, class Sum>
  MILLRACE_DEVICE void finish(const Standing& at, Sum sum) {
    const float dh = outer + sum(0);
    const float da = kRectify ? (state > 0 ? dh : 0.0F) : dh * (1 - state * state);
    publish(static_cast<S*>(at.side.gate_gradient) + at.gate_at(at.time(0), 1, 0), da);
  }

  float state, outer;
};

}  // namespace millrace::rnn
