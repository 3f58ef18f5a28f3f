// One element of a recurrent cell, forward and back: the pointwise part between the products x W and h U, in one place for
// every device that computes on the host. Gates come as sums and become activations; going back they become the errors
// of those sums.
//
//   LstmCell<ExactMath<double>>::forward(i, f, g, o, c_before, c, m);     // h = m, or its projection
//   LstmCell<ExactMath<double>>::back(i, f, g, o, c_before, c, dm, dc);   // dc: of c in, of c_before out
//
// Math gives sigmoid and tanh, which must neither overflow nor give NaN for any finite sum.
// lstm        i, f, o sigmoid, g tanh; c = f c' + i g; m = o tanh(c)
// gru         r, z sigmoid; h = (1 - z) n + z h'
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
struct LstmCell {
  using T = typename Math::Value;

  static void forward(T& i, T& f, T& g, T& o, T c_before, T& c, T& m) {
    i = Math::sigmoid(i);
    f = Math::sigmoid(f);
    g = Math::tanh(g);
    o = Math::sigmoid(o);
    c = f * c_before + i * g;
    m = o * Math::tanh(c);
  }

  static void back(T& i, T& f, T& g, T& o, T c_before, T c, T dm, T& dc) {
    const T bounded = Math::tanh(c);
    const T through = dc + dm * o * (T{1} - bounded * bounded);
    const T di = through * g, df = through * c_before, dg = through * i;
    dc = through * f;
    i = di * i * (T{1} - i);
    f = df * f * (T{1} - f);
    g = dg * (T{1} - g * g);
    o = dm * bounded * o * (T{1} - o);
  }
};

template <typename Math>
struct GruCell {
  using T = typename Math::Value;

  // The state's own product u = U h' + b takes part in n after the reset. Back, u becomes its error.
  static void forward_reset_after(T& n, T& r, T& z, T u, T h_before, T& h) {
    r = Math::sigmoid(r);
    z = Math::sigmoid(z);
    n = Math::tanh(n + r * u);
    h = (T{1} - z) * n + z * h_before;
  }
  // dh: of h in, what reaches h_before without a product out.
  static void back_reset_after(T& n, T& r, T& z, T& u, T h_before, T& dh) {
    const T dn = dh * (T{1} - z) * (T{1} - n * n);
    const T dz = dh * (h_before - n) * z * (T{1} - z);
    const T dr = dn * u * r * (T{1} - r);
    dh = dh * z;
    u = dn * r;
    n = dn;
    r = dr;
    z = dz;
  }

  // In two halves, with the product U (r h') between them.
  static void forward_gates(T& r, T& z, T h_before, T& reset) {
    r = Math::sigmoid(r);
    z = Math::sigmoid(z);
    reset = r * h_before;
  }
  static void forward_state(T& n, T z, T h_before, T& h) {
    n = Math::tanh(n);
    h = (T{1} - z) * n + z * h_before;
  }
  static void back_state(T& n, T& z, T h_before, T& dh) {
    const T dn = dh * (T{1} - z) * (T{1} - n * n);
    const T dz = dh * (h_before - n) * z * (T{1} - z);
    dh = dh * z;
    n = dn;
    z = dz;
  }
  // `dreset`: of r h', which the product has brought.
  static void back_gates(T& r, T h_before, T dreset, T& dh) {
    dh += dreset * r;
    r = dreset * h_before * r * (T{1} - r);
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
