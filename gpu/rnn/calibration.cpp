#include "gpu/rnn/calibration.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace millrace::rnn {
namespace {

double baseline(const std::vector<Timing>& timings, const char* of) {
  for (const Timing& timing : timings)
    if (timing.warps == 1 && timing.outputs == 1 && timing.time > 0) return timing.time;
  throw std::invalid_argument(std::string("no timing of ") + of + " with one warp and one output");
}

// The factor per doubling of one quantity, the other being one: least squares of log time through the baseline.
template <class Of>
double factor_per_doubling(const std::vector<Timing>& timings, double base, double limit, double published, Of of) {
  double above = 0;
  double below = 0;
  for (const Timing& timing : timings) {
    const double doublings = of(timing);
    if (doublings <= 0 || timing.warps * timing.outputs > limit) continue;
    above += doublings * std::log(timing.time / base);
    below += doublings * doublings;
  }
  return below > 0 ? std::exp(above / below) : published;
}

// The slowdowns of products if they saturate at `load`; how far off the timings are, as a sum of squared logarithms.
double fit_products_at(double load, const std::vector<Timing>& products, double base, const Gpu& published, Gpu& gpu) {
  gpu.products_saturate = load;
  gpu.warp_slowdown = factor_per_doubling(products, base, load, published.warp_slowdown,
                                          [](const Timing& x) { return x.outputs == 1 ? std::log2(x.warps) : 0; });
  gpu.reuse_slowdown = factor_per_doubling(products, base, load, published.reuse_slowdown,
                                           [](const Timing& x) { return x.warps == 1 ? std::log2(x.outputs) : 0; });
  // Beyond saturation the time grows in proportion: its slope.
  double slopes = 0;
  int beyond = 0;
  for (const Timing& timing : products) {
    const double times = timing.warps * timing.outputs / load;
    if (times <= 1) continue;
    slopes += timing.time / base / times;
    ++beyond;
  }
  gpu.saturated_slowdown = beyond > 0 ? slopes / beyond : published.saturated_slowdown;
  double off = 0;
  for (const Timing& timing : products) {
    const double times = timing.warps * timing.outputs / load;
    const double slowdown =
        times > 1 ? gpu.saturated_slowdown * times
                  : std::pow(gpu.warp_slowdown, std::log2(timing.warps)) * std::pow(gpu.reuse_slowdown, std::log2(timing.outputs));
    off += std::pow(std::log(timing.time / base / slowdown), 2);
  }
  return off;
}

// The load that explains the timings best, among those of multiprocessors that there are; the published one where all do alike.
void fit_products(const std::vector<Timing>& products, double base, const Gpu& published, Gpu& gpu) {
  double best = published.products_saturate;
  double least = fit_products_at(best, products, base, published, gpu);
  for (const double load : {4.0, 8.0, 16.0, 32.0}) {
    const double off = fit_products_at(load, products, base, published, gpu);
    if (off > least * (1 - 1e-6) - 1e-12) continue;
    best = load;
    least = off;
  }
  fit_products_at(best, products, base, published, gpu);
}

}  // namespace

Gpu fit(const Timings& t, const Gpu& published) {
  Gpu gpu = published;
  for (const std::vector<Timing>* timings : {&t.products, &t.reductions})
    for (const Timing& timing : *timings)
      if (!(timing.time > 0)) throw std::invalid_argument("a timing of " + std::to_string(timing.time) + "; times are positive");
  const double product = baseline(t.products, "products");
  const double reduction = baseline(t.reductions, "reductions");
  if (!(t.multiply_adds > 0 && t.exchanges > 0 && t.cycles_per_time > 0)) throw std::invalid_argument("timings without their counts");
  if (t.multiprocessors > 0) gpu.multiprocessors = t.multiprocessors;
  if (t.registers > 0) gpu.registers = t.registers;
  const double multiply_add = product / t.multiply_adds;
  gpu.multiply_add_latency = multiply_add * t.cycles_per_time;
  gpu.shuffle = reduction / t.exchanges / multiply_add;
  fit_products(t.products, product, published, gpu);
  gpu.reduction_slowdown = factor_per_doubling(t.reductions, reduction, gpu.reductions_saturate, published.reduction_slowdown,
                                               [](const Timing& x) { return 1.0 * x.warps * x.outputs - 1; });
  if (t.l2_bytes > 0 && t.l2_time > 0) gpu.l2_bytes_per_cycle = t.l2_bytes / (t.l2_time * t.cycles_per_time);
  if (t.l2_latency_time > 0) gpu.l2_latency = t.l2_latency_time / 2 / multiply_add;
  return gpu;
}

}  // namespace millrace::rnn
