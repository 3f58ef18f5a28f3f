// The GRU's steps; see cells.h for what a cell has. Gates r (reset), z (update), n (candidate); h = (1 - z) n + z h.
// cuDNN's form applies the reset gate to the candidate's sums: one product per step. The canonical form applies it to the
// state before the product: two products, each with an exchange (or one exchange more cleverly: gru_one_exchange.h).
#pragma once

#include "gpu/rnn/kernels/cells.h"

namespace millrace::rnn {

template <class S>
struct GruForward {
  using Scalar = S;
  static constexpr int kPhases = 1, kGates = 3;
  static constexpr bool kForward = true;
  static constexpr MILLRACE_HOST_DEVICE int gates(int) { return 3; }
  static constexpr MILLRACE_HOST_DEVICE int columns(int, int hidden) { return hidden; }
  MILLRACE_HOST_DEVICE static const S* matrix(const Side& side, int, int) { return static_cast<const S*>(side.weights); }
  MILLRACE_HOST_DEVICE static Source<S> source(const Parameters& p, const Side& side, int, int step) {
    return earlier_states<S>(p, side, step);
  }

  MILLRACE_DEVICE void prefetch(const Standing& at) {
    MILLRACE_UNROLL
    for (int g = 0; g < 3; ++g) input[g] = at.side.gates[at.gate_at(at.time(0), 3, g)];
    state = at.template earlier_state<S>();
    bias = at.side.candidate_bias != nullptr ? at.side.candidate_bias[at.unit] : 0.0F;
  }
  template <int kPhase, class Sum>
  MILLRACE_DEVICE void finish(const Standing& at, Sum sum) {
    const float r = device::sigmoid(input[0] + sum(0));
    const float z = device::sigmoid(input[1] + sum(1));
    const float q = sum(2) + bias;
    const float n = device::hyperbolic_tangent(input[2] + r * q);
    const int time = at.time(0);
    publish(static_cast<S*>(at.side.output) + at.output_at(time), n + z * (state - n));
    if (at.parameters.training == 0) return;
    at.side.gates[at.gate_at(time, 3, 0)] = r;
    at.side.gates[at.gate_at(time, 3, 1)] = z;
    at.side.gates[at.gate_at(time, 3, 2)] = n;
    at.side.candidate[at.unit_at(time)] = q;
  }

  float input[3];
  float state, bias;
};

template <class S>
struct GruBackward {
  using Scalar = S;
  static constexpr int kPhases = 1, kGates = 3;
  static constexpr bool kForward = false;
  static constexpr MILLRACE_HOST_DEVICE int gates(int) { return 1; }
  static constexpr MILLRACE_HOST_DEVICE int columns(int, int hidden) { return 3 * hidden; }
  MILLRACE_HOST_DEVICE static const S* matrix(const Side& side, int, int) { return static_cast<const S*>(side.weights); }
  MILLRACE_HOST_DEVICE static Source<S> source(const Parameters& p, const Side& side, int, int step) {
    return gate_gradients<S>(p, side, step + 1, 3, 0);
  }

  MILLRACE_DEVICE void prefetch(const Standing& at) {
    MILLRACE_UNROLL
    for (int g = 0; g < 3; ++g) gate[g] = at.side.gates[at.gate_at(at.time(0), 3, g)];
    candidate = at.side.candidate[at.unit_at(at.time(0))];
    state = at.template earlier_state<S>();
    carry = at.side.carry[at.still_at()];
    outer = at.outer_gradient();
  }
  template <int kPhase, class Sum>
  MILLRACE_DEVICE void finish(const Standing& at, Sum sum) {
    const float r = gate[0], z = gate[1], n = gate[2];
    const float dh = outer + carry + sum(0);
    const float dn = dh * (1 - z) * (1 - n * n);
    const float dz = dh * (state - n) * z * (1 - z);
    const float dr = dn * candidate * r * (1 - r);
    const int time = at.time(0);
    S* const recurrent = static_cast<S*>(at.side.gate_gradient);
    publish(recurrent + at.gate_at(time, 3, 0), dr);
    publish(recurrent + at.gate_at(time, 3, 1), dz);
    publish(recurrent + at.gate_at(time, 3, 2), dn * r);
    S* const input = static_cast<S*>(at.side.input_gradient);
    publish(input + at.gate_at(time, 3, 0), dr);
    publish(input + at.gate_at(time, 3, 1), dz);
    publish(input + at.gate_at(time, 3, 2), dn);
    at.side.carry[at.still_at()] = dh * z;
  }

  float gate[3];
  float candidate, state, carry, outer;
};

template <class S>
struct CanonicalGruForward {
  using Scalar = S;
  static constexpr int kPhases = 2, kGates = 3;
  static constexpr bool kForward = true;
  static constexpr MILLRACE_HOST_DEVICE int gates(int phase) { return phase == 0 ? 2 : 1; }
  static constexpr MILLRACE_HOST_DEVICE int columns(int, int hidden) { return hidden; }
  MILLRACE_HOST_DEVICE static const S* matrix(const Side& side, int phase, int hidden) {
    return static_cast<const S*>(side.weights) + (phase == 0 ? 0 : 2LL * hidden * hidden);
  }
  MILLRACE_HOST_DEVICE static Source<S> source(const Parameters& p, const Side& side, int phase, int step) {
    if (phase == 0) return earlier_states<S>(p, side, step);
    return {static_cast<const S*>(side.reset_state) + static_cast<long long>(time_of(side, p.steps, step)) * p.batch * p.hidden, p.hidden,
            false};
  }

  MILLRACE_DEVICE void prefetch(const Standing& at) {
    MILLRACE_UNROLL
    for (int g = 0; g < 3; ++g) input[g] = at.side.gates[at.gate_at(at.time(0), 3, g)];
    state = at.template earlier_state<S>();
  }
  template <int kPhase, class Sum>
  MILLRACE_DEVICE void finish(const Standing& at, Sum sum) {
    const int time = at.time(0);
    if constexpr (kPhase == 0) {
      const float r = device::sigmoid(input[0] + sum(0));
      update = device::sigmoid(input[1] + sum(1));
      publish(static_cast<S*>(at.side.reset_state) + at.unit_at(time), r * state);
      if (at.parameters.training == 0) return;
      at.side.gates[at.gate_at(time, 3, 0)] = r;
      at.side.gates[at.gate_at(time, 3, 1)] = update;
    } else {
      const float n = device::hyperbolic_tangent(input[2] + sum(0));
      publish(static_cast<S*>(at.side.output) + at.output_at(time), n + update * (state - n));
      if (at.parameters.training != 0) at.side.candidate[at.unit_at(time)] = n;
    }
  }

  // Takes up after phase 0 in a launch of its own; training is on then.
  MILLRACE_DEVICE void resume(const Standing& at) { update = at.side.gates[at.gate_at(at.time(0), 3, 1)]; }

  float input[3];
  float state, update;
};

// First what the later step's r and z send back, then what this step's candidate does.
template <class S>
struct CanonicalGruBackward {
  using Scalar = S;
  static constexpr int kPhases = 2, kGates = 3;
  static constexpr bool kForward = false;
  static constexpr MILLRACE_HOST_DEVICE int gates(int) { return 1; }
  static constexpr MILLRACE_HOST_DEVICE int columns(int phase, int hidden) { return phase == 0 ? 2 * hidden : hidden; }
  MILLRACE_HOST_DEVICE static const S* matrix(const Side& side, int phase, int hidden) {
    return static_cast<const S*>(side.weights) + (phase == 0 ? 0 : 2LL * hidden * hidden);
  }
  MILLRACE_HOST_DEVICE static Source<S> source(const Parameters& p, const Side& side, int phase, int step) {
    return phase == 0 ? gate_gradients<S>(p, side, step + 1, 3, 0) : gate_gradients<S>(p, side, step, 3, 2);
  }

  MILLRACE_DEVICE void prefetch(const Standing& at) {
    MILLRACE_UNROLL
    for (int g = 0; g < 2; ++g) gate[g] = at.side.gates[at.gate_at(at.time(0), 3, g)];
    gate[2] = at.side.candidate[at.unit_at(at.time(0))];
    state = at.template earlier_state<S>();
    carry = at.side.carry[at.still_at()];
    outer = at.outer_gradient();
  }
  template <int kPhase, class Sum>
  MILLRACE_DEVICE void finish(const Standing& at, Sum sum) {
    const float r = gate[0], z = gate[1], n = gate[2];
    S* const out = static_cast<S*>(at.side.gate_gradient);
    const int time = at.time(0);
    if constexpr (kPhase == 0) {
      const float dh = outer + carry + sum(0);
      publish(out + at.gate_at(time, 3, 1), dh * (state - n) * z * (1 - z));
      publish(out + at.gate_at(time, 3, 2), dh * (1 - z) * (1 - n * n));
      carry = dh * z;
      at.side.carry[at.still_at()] = carry;
    } else {
      const float of_reset_state = sum(0);
      publish(out + at.gate_at(time, 3, 0), of_reset_state * state * r * (1 - r));
      at.side.carry[at.still_at()] = carry + of_reset_state * r;
    }
  }

  MILLRACE_DEVICE void resume(const Standing&) {}  // the carry is where prefetch() finds it

  float gate[3];
  float state, carry, outer;
};

}  // namespace millrace::rnn
