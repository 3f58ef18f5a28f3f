// One element of a recurrent cell, forward and back: the pointwise part between the products x W and h U, in one place for
// every device that computes on the host. Gates come as sums and become activations; going back they become the errors
// of those sums.
//
//   const SigmoidGate<ExactMath<double>> gate;                                  // or HardGate<double>{0.2}
//   LstmCell<ExactMath<double>>::forward(gate, i, f, g, o, c_before, c, m);     // h = m, or its projection
//   LstmCell<ExactMath<double>>::back(gate, i, f, g, o, c_before, c, dm, dc);   // dc: of c in, of c_before out
//
// Math gives sigmoid and tanh, which must neither overflow nor give NaN for any finite sum. A gate function bounds a sum to [0, 1], and
// knows its derivative from what came out.
// lstm        i, f, o gates, g tanh; c = f c' + i g; m = o tanh(c)
// gru         r, z gates; h = (1 - z) n + z h'
//   reset before  n = tanh(W x + U (r h'))      canonical
//   reset after   n = tanh(W x + r (U h' + b))  cuDNN's, PyTorch's
// vanilla     h = relu or tanh of the sum
#pragma once

#include <cmath>

namespace millrace {

template <typename T>
struct ExactMath {
  using Value = T;
  static T sigmoid(T x) { return T{1} / (T{1} + std::exp(-x)); }
  static T tanh(T x) { return std::tanh(x); }
};

template <typename Math>
struct SigmoidGate {
  using T = typename Math::Value;
  T bound(T sum) const { return Math::sigmoid(sum); }
  T back(T error, T y) const { return error * y * (T{1} - y); }
};

// slope * sum + 0.5, held to [0, 1]; at the corners the derivative is 0. A NaN is on neither side of the bounds and stays.
template <typename T>
struct HardGate {
  T slope;
  T bound(T sum) const {
    const T line = slope * sum + T{0.5};
    const T above = line < T{0} ? T{0} : line;
    return above > T{1} ? T{1} : above;
  }
  T back(T error, T y) const { return y <= T{0} || y >= T{1} ? T{0} : error * slope; }
};

template <typename Math>
struct LstmCell {
  using T = typename Math::Value;

  template <typename Gate>
  static void forward(const Gate& gate, T& i, T& f, T& g, T& o, T c_before, T& c, T& m) {
    i = gate.bound(i);
    f = gate.bound(f);
    g = Math::tanh(g);
    o = gate.bound(o);
    c = f * c_before + i * g;
    m = o * Math::tanh(c);
  }

  template <typename Gate>
  static void back(const Gate& gate, T& i, T& f, T& g, T& o, T c_before, T c, T dm, T& dc) {
    const T bounded = Math::tanh(c);
    const T through = dc + dm * o * (T{1} - bounded * bounded);
    const T di = through * g, df = through * c_before, dg = through * i;
    dc = through * f;
    i = gate.back(di, i);
    f = gate.back(df, f);
    g = dg * (T{1} - g * g);
    o = gate.back(dm * bounded, o);
  }
};

template <typename Math>
struct GruCell {
  using T = typename Math::Value;

  // The state's own product u = U h' + b takes part in n after the reset. Back, u becomes its error.
  template <typename Gate>
  static void forward_reset_after(const Gate& gate, T& n, T& r, T& z, T u, T h_before, T& h) {
    r = gate.bound(r);
    z = gate.bound(z);
    n = Math::tanh(n + r * u);
    h = (T{1} - z) * n + z * h_before;
  }
  // dh: of h in, what reaches h_before without a product out.
  template <typename Gate>
  static void back_reset_after(const Gate& gate, T& n, T& r, T& z, T& u, T h_before, T& dh) {
    const T dn = dh * (T{1} - z) * (T{1} - n * n);
    const T dz = gate.back(dh * (h_before - n), z);
    const T dr = gate.back(dn * u, r);
    dh = dh * z;
    u = dn * r;
    n = dn;
    r = dr;
    z = dz;
  }

  // In two halves, with the product U (r h') between them.
  template <typename Gate>
  static void forward_gates(const Gate& gate, T& r, T& z, T h_before, T& reset) {
    r = gate.bound(r);
    z = gate.bound(z);
    reset = r * h_before;
  }
  static void forward_state(T& n, T z, T h_before, T& h) {
    n = Math::tanh(n);
    h = (T{1} - z) * n + z * h_before;
  }
  template <typename Gate>
  static void back_state(const Gate& gate, T& n, T& z, T h_before, T& dh) {
    const T dn = dh * (T{1} - z) * (T{1} - n * n);
    const T dz = gate.back(dh * (h_before - n), z);
    dh = dh * z;
    n = dn;
    z = dz;
  }
  // `dreset`: of r h', which the product has brought.
  template <typename Gate>
  static void back_gates(const Gate& gate, T& r, T h_before, T dreset, T& dh) {
    dh += dreset * r;
    r = gate.back(dreset * h_before, r);
  }
};

template <typename Math>
struct VanillaCell {
  using T = typename Math::Value;
  static T forward_relu(T sum) { return sum > T{0} ? sum : T{0}; }
  static T back_relu(T h, T dh) { return h > T{0} ? dh : T{0}; }
  static T forward_tanh(T sum) { return Math::tanh(sum); }
  static T back_tanh(T h, T dh) { return dh * (T{1} - h * h); }
};

}  // namespace millrace
