#include "tests/gpu/rnn/reference.h"

#include <cmath>
#include <utility>

namespace millrace::rnn {
namespace {

std::size_t at(int a) { return static_cast<std::size_t>(a); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

Reference::Reference(const RnnShape& shape, std::vector<Weights> weights)
    : first_state(at(shape.sides())), first_cell(at(shape.sides())), shape_(shape), weights_(std::move(weights)) {
  sides_.resize(at(shape.sides()));
}

double Reference::state_before(int side, int step, int sample, int unit) const {
  const int width = shape_.state();
  if (step > 0) return sides_[at(side)].state[at(((step - 1) * shape_.batch + sample) * width + unit)];
  const Numbers& first = first_state[at(side)];
  return first.empty() ? 0 : first[at(sample * width + unit)];
}

double Reference::cell_before(int side, int step, int sample, int unit) const {
  if (step > 0) return sides_[at(side)].cell[at(((step - 1) * shape_.batch + sample) * shape_.hidden + unit)];
  const Numbers& first = first_cell[at(side)];
  return first.empty() ? 0 : first[at(sample * shape_.hidden + unit)];
}

void Reference::forward(const Numbers& input) {
  input_ = input;
  output.assign(at(shape_.steps * shape_.batch * shape_.outputs()), 0);
  for (int side = 0; side < shape_.sides(); ++side) forward_side(side);
}

// Everything per side is kept in the order of its steps, not of time.
void Reference::forward_side(int side) {
  const int hidden = shape_.hidden, gates = shape_.gates(), width = shape_.state();
  const Weights& w = weights_[at(side)];
  SideMemory& m = sides_[at(side)];
  const int rows = shape_.steps * shape_.batch;
  m.gates.assign(at(rows * gates * hidden), 0);
  m.cell.assign(at(rows * hidden), 0);
  m.inner = m.recurrent_sums = m.reset_state = m.cell;
  m.state.assign(at(rows * width), 0);
  const bool canonical = shape_.recurrence == Recurrence::kCanonicalGru;
  for (int step = 0; step < shape_.steps; ++step)
    for (int b = 0; b < shape_.batch; ++b) {
      const int row = step * shape_.batch + b;
      const double* const x = &input_[at((time(side, step) * shape_.batch + b) * shape_.inputs)];
      Numbers from_input(at(gates * hidden)), from_state(at(gates * hidden));
      const auto recurrent = [&](int g, const auto& state) {
        double sum = 0;
        for (int k = 0; k < width; ++k) sum += static_cast<double>(w.recurrent[at(g * width + k)]) * state(k);
        return sum;
      };
      for (int g = 0; g < gates * hidden; ++g) {
        double sum = static_cast<double>(w.bias[at(g)]);
        for (int k = 0; k < shape_.inputs; ++k) sum += static_cast<double>(w.input[at(g * shape_.inputs + k)]) * x[k];
        from_input[at(g)] = sum;
        if (!canonical || g < 2 * hidden) from_state[at(g)] = recurrent(g, [&](int k) { return state_before(side, step, b, k); });
      }
      double* const gate = &m.gates[at(row * gates * hidden)];
      for (int u = 0; u < hidden && canonical; ++u) {
        gate[u] = sigmoid(from_input[at(u)] + from_state[at(u)]);
        m.reset_state[at(row * hidden + u)] = gate[u] * state_before(side, step, b, u);
      }
      for (int u = 0; u < hidden; ++u) {
        const auto sum = [&](int g) { return from_input[at(g * hidden + u)] + from_state[at(g * hidden + u)]; };
        double h = 0;
        switch (shape_.recurrence) {
          case Recurrence::kTanh: h = gate[u] = std::tanh(sum(0)); break;
          case Recurrence::kRelu: h = gate[u] = std::fmax(0, sum(0)); break;
          case Recurrence::kLstm: {
            gate[u] = sigmoid(sum(0));
            gate[hidden + u] = sigmoid(sum(1));
            gate[2 * hidden + u] = std::tanh(sum(2));
            gate[3 * hidden + u] = sigmoid(sum(3));
            const double c = gate[hidden + u] * cell_before(side, step, b, u) + gate[u] * gate[2 * hidden + u];
            m.cell[at(row * hidden + u)] = c;
            h = gate[3 * hidden + u] * std::tanh(c);
            break;
          }
          case Recurrence::kGru:
          case Recurrence::kCanonicalGru: {
            gate[u] = sigmoid(sum(0));
            gate[hidden + u] = sigmoid(sum(1));
            double& q = m.recurrent_sums[at(row * hidden + u)];
            if (canonical) {
              q = recurrent(2 * hidden + u, [&](int k) { return m.reset_state[at(row * hidden + k)]; });
              gate[2 * hidden + u] = std::tanh(from_input[at(2 * hidden + u)] + q);
            } else {
              q = from_state[at(2 * hidden + u)] + static_cast<double>(w.candidate_bias[at(u)]);
              gate[2 * hidden + u] = std::tanh(from_input[at(2 * hidden + u)] + gate[u] * q);
            }
            const double z = gate[hidden + u];
            h = (1 - z) * gate[2 * hidden + u] + z * state_before(side, step, b, u);
            break;
          }
        }
        m.inner[at(row * hidden + u)] = h;
      }
      for (int u = 0; u < width; ++u) {
        double h = m.inner[at(row * hidden + u)];
        if (shape_.projection > 0) {
          h = 0;
          for (int k = 0; k < hidden; ++k) h += static_cast<double>(w.projection[at(u * hidden + k)]) * m.inner[at(row * hidden + k)];
        }
        m.state[at(row * width + u)] = h;
        output[at(((time(side, step) * shape_.batch + b) * shape_.sides() + side) * width + u)] = h;
      }
    }
}

void Reference::backward(const Numbers& output_gradient) {
  input_gradient.assign(input_.size(), 0);
  gradients.assign(at(shape_.sides()), {});
  for (int side = 0; side < shape_.sides(); ++side) backward_side(side, output_gradient);
}

void Reference::backward_side(int side, const Numbers& output_gradient) {
  const int hidden = shape_.hidden, gates = shape_.gates(), width = shape_.state();
  const Weights& w = weights_[at(side)];
  const SideMemory& m = sides_[at(side)];
  ReferenceGradients& g = gradients[at(side)];
  g.input.assign(w.input.size(), 0);
  g.recurrent.assign(w.recurrent.size(), 0);
  g.bias.assign(w.bias.size(), 0);
  g.candidate_bias.assign(w.candidate_bias.size(), 0);
  g.projection.assign(w.projection.size(), 0);
  g.first_state.assign(at(shape_.batch * width), 0);
  g.first_cell.assign(at(shape_.batch * hidden), 0);
  Numbers& dstate = g.first_state;  // of the step's state, then of the state before it
  Numbers& dcell = g.first_cell;
  for (int step = shape_.steps - 1; step >= 0; --step)
    for (int b = 0; b < shape_.batch; ++b) {
      const int row = step * shape_.batch + b;
      Numbers outer(at(width)), inner(at(hidden)), before(at(width)), recurrent_side(at(gates * hidden)), input_side(at(gates * hidden));
      for (int u = 0; u < width; ++u)
        outer[at(u)] =
            dstate[at(b * width + u)] + output_gradient[at(((time(side, step) * shape_.batch + b) * shape_.sides() + side) * width + u)];
      for (int k = 0; k < hidden; ++k) {
        if (shape_.projection == 0) {
          inner[at(k)] = outer[at(k)];
          continue;
        }
        for (int u = 0; u < width; ++u) {
          inner[at(k)] += static_cast<double>(w.projection[at(u * hidden + k)]) * outer[at(u)];
          g.projection[at(u * hidden + k)] += outer[at(u)] * m.inner[at(row * hidden + k)];
        }
      }
      const double* const gate = &m.gates[at(row * gates * hidden)];
      for (int u = 0; u < hidden; ++u) {
        const double dh = inner[at(u)];
        const auto set = [&](int index, double recurrent, double input) {
          recurrent_side[at(index * hidden + u)] = recurrent;
          input_side[at(index * hidden + u)] = input;
        };
        if (shape_.recurrence == Recurrence::kTanh) {
          set(0, dh * (1 - gate[u] * gate[u]), dh * (1 - gate[u] * gate[u]));
        } else if (shape_.recurrence == Recurrence::kRelu) {
          set(0, gate[u] > 0 ? dh : 0, gate[u] > 0 ? dh : 0);
        } else if (shape_.recurrence == Recurrence::kLstm) {
          const double i = gate[u], f = gate[hidden + u], c = gate[2 * hidden + u], o = gate[3 * hidden + u];
          const double squashed = std::tanh(m.cell[at(row * hidden + u)]);
          double& dc = dcell[at(b * hidden + u)];
          dc += dh * o * (1 - squashed * squashed);
          const double di = dc * c * i * (1 - i), df = dc * cell_before(side, step, b, u) * f * (1 - f);
          const double dg = dc * i * (1 - c * c), dout = dh * squashed * o * (1 - o);
          set(0, di, di), set(1, df, df), set(2, dg, dg), set(3, dout, dout);
          dc *= f;
        } else {
          const double r = gate[u], z = gate[hidden + u], n = gate[2 * hidden + u], h = state_before(side, step, b, u);
          const double dn = dh * (1 - z) * (1 - n * n), dz = dh * (h - n) * z * (1 - z);
          set(1, dz, dz);
          before[at(u)] += dh * z;
          if (shape_.recurrence == Recurrence::kGru) {
            const double dr = dn * m.recurrent_sums[at(row * hidden + u)] * r * (1 - r);
            set(0, dr, dr), set(2, dn * r, dn);
          } else {
            set(2, dn, dn);
          }
        }
      }
      if (shape_.recurrence == Recurrence::kCanonicalGru)
        for (int k = 0; k < hidden; ++k) {
          double of_reset_state = 0;
          for (int u = 0; u < hidden; ++u)
            of_reset_state += static_cast<double>(w.recurrent[at((2 * hidden + u) * hidden + k)]) * recurrent_side[at(2 * hidden + u)];
          const double r = gate[k], h = state_before(side, step, b, k);
          recurrent_side[at(k)] = input_side[at(k)] = of_reset_state * h * r * (1 - r);
          before[at(k)] += of_reset_state * r;
        }
      const bool canonical = shape_.recurrence == Recurrence::kCanonicalGru;
      for (int j = 0; j < gates * hidden; ++j) {
        const bool of_candidate = canonical && j >= 2 * hidden;
        for (int k = 0; k < width; ++k) {
          if (!of_candidate) before[at(k)] += static_cast<double>(w.recurrent[at(j * width + k)]) * recurrent_side[at(j)];
          const double read = of_candidate ? m.reset_state[at(row * hidden + k)] : state_before(side, step, b, k);
          g.recurrent[at(j * width + k)] += recurrent_side[at(j)] * read;
        }
        const int x = (time(side, step) * shape_.batch + b) * shape_.inputs;
        for (int k = 0; k < shape_.inputs; ++k) {
          g.input[at(j * shape_.inputs + k)] += input_side[at(j)] * input_[at(x + k)];
          input_gradient[at(x + k)] += input_side[at(j)] * static_cast<double>(w.input[at(j * shape_.inputs + k)]);
        }
        g.bias[at(j)] += input_side[at(j)];
        if (shape_.recurrence == Recurrence::kGru && j >= 2 * hidden) g.candidate_bias[at(j - 2 * hidden)] += recurrent_side[at(j)];
      }
      for (int k = 0; k < width; ++k) dstate[at(b * width + k)] = before[at(k)];
    }
}

}  // namespace millrace::rnn
