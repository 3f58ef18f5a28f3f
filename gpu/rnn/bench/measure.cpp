#include "gpu/rnn/bench/measure.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "gpu/rnn/dispatch.h"

namespace millrace::rnn {
namespace {

constexpr int kWarmUp = 5;

double median_microseconds(CudaMachine& gpu, int runs, const std::function<void()>& run) {
  for (int i = 0; i < kWarmUp; ++i) run();
  gpu.finish();
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  require(cudaEventCreate(&begin), "timing");
  require(cudaEventCreate(&end), "timing");
  std::vector<float> times;
  for (int i = 0; i < runs; ++i) {
    require(cudaEventRecord(begin, gpu.stream()), "timing");
    run();
    require(cudaEventRecord(end, gpu.stream()), "timing");
    require(cudaEventSynchronize(end), "timing");
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, begin, end), "timing");
    times.push_back(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return 1000.0 * static_cast<double>(times[times.size() / 2]);
}

std::vector<float> random_values(std::mt19937& random, long long count, float size) {
  std::uniform_real_distribution<float> any(-size, size);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = any(random);
  return values;
}

Weights random_weights(const RnnShape& shape, std::mt19937& random) {
  const float size = 1.0F / std::sqrt(static_cast<float>(shape.hidden));
  const long long rows = 1LL * shape.gates() * shape.hidden;
  Weights weights;
  weights.input = random_values(random, rows * shape.inputs, size);
  weights.recurrent = random_values(random, rows * shape.hidden, size);
  weights.bias = random_values(random, rows, size);
  if (shape.recurrence == Recurrence::kGru) weights.candidate_bias = random_values(random, shape.hidden, size);
  return weights;
}

void upload(CudaMachine& gpu, const std::vector<float>& values, void* to, Precision precision) {
  auto* const staged = static_cast<float*>(gpu.allocate(values.size() * sizeof(float)));
  gpu.copy_to(staged, values.data(), values.size() * sizeof(float));
  gpu.change_format(staged, to, precision, static_cast<long long>(values.size()));
  gpu.finish();
  gpu.release(staged);
}

std::vector<float> download(CudaMachine& gpu, const void* from, std::size_t count, Precision precision) {
  std::vector<float> values(count);
  with_format(precision, [&]<class S>(S) {
    std::vector<S> raw(count);
    gpu.copy_from(raw.data(), from, count * sizeof(S));
    for (std::size_t i = 0; i < count; ++i) values[i] = to_float(raw[i]);
  });
  return values;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double here = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(here <= worst)) worst = std::isnan(here) ? INFINITY : here;
  }
  return worst;
}

}  // namespace

double tolerance_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat: return 1e-4;
    case Precision::kHalf: return 1e-2;
    case Precision::kBFloat16: return 8e-2;
  }
  return 0;
}

Outcome measure(CudaMachine& gpu, CudnnPeer* cudnn, const Case& one, const Effort& effort) {
  const RnnShape& shape = one.shape;
  Outcome outcome;
  outcome.one = one;
  std::mt19937 random(17);
  const Weights weights = random_weights(shape, random);
  const std::vector<float> x = random_values(random, 1LL * shape.steps * shape.batch * shape.inputs, 1);
  const std::size_t outputs =
      static_cast<std::size_t>(shape.steps) * static_cast<std::size_t>(shape.batch) * static_cast<std::size_t>(shape.outputs());

  std::vector<float> reference;
  for (const std::string& algorithm : cudnn != nullptr ? CudnnPeer::algorithms() : std::vector<std::string>()) {
    Timed timed;
    timed.what = algorithm;
    try {
      const std::unique_ptr<PeerLayer> layer = cudnn->prepare(algorithm, shape);
      if (layer == nullptr) throw RnnError(RnnFailure::kUnsupportedSize, cudnn->refusal());
      layer->set_weights(0, weights);
      upload(gpu, x, layer->input(), shape.precision);
      const auto run = [&] {
        layer->forward();
        if (shape.training) layer->backward();
      };
      run();
      gpu.finish();
      const std::vector<float> y = download(gpu, layer->output(), outputs, shape.precision);
      if (algorithm == CudnnPeer::algorithms().front()) reference = y;
      if (!reference.empty()) timed.difference = difference(y, reference);
      timed.microseconds = one.layers * median_microseconds(gpu, effort.runs, run);
    } catch (const RnnError& error) {
      timed.refusal = error.what();
    }
    outcome.peers.push_back(timed);
  }

  outcome.ours.what = "ours";
  try {
    RnnLayer layer(gpu, shape);
    layer.set_weights(0, weights);
    upload(gpu, x, layer.input(), shape.precision);
    if (shape.training) gpu.copy_to(layer.output_gradient(), std::vector<float>(outputs, 0.01F).data(), outputs * sizeof(float));
    for (const bool backward : {false, true}) {
      if (backward && !shape.training) continue;
      const Problem problem{shape.recurrence, backward, shape.precision, shape.hidden, shape.batch, 1};
      if (backward) layer.forward();
      const std::optional<Layout> best =
          choose_layout(gpu, problem, effort.constants, effort.layouts, effort.file, [&](const Layout& layout) {
            layer.use_layout(backward, layout);
            const double time = median_microseconds(gpu, 11, [&] { backward ? layer.backward() : layer.forward(); });
            layer.check();
            return 1e-6 * time;
          });
      layer.use_layout(backward, best);
      if (!backward) outcome.layout = best ? name_of(*best) : why_not(gpu.limits(), problem);
    }
    const auto run = [&] {
      layer.forward();
      if (shape.training) layer.backward();
    };
    run();
    layer.check();
    const std::vector<float> y = download(gpu, layer.output(), outputs, shape.precision);
    outcome.ours.microseconds = one.layers * median_microseconds(gpu, effort.runs, run);
    layer.check();
    outcome.compared = !reference.empty();
    if (outcome.compared) {
      outcome.ours.difference = difference(y, reference);
      outcome.correct = outcome.ours.difference <= tolerance_of(shape.precision);
    }
  } catch (const RnnError& error) {
    if (error.kind() == RnnFailure::kNoGpu || error.kind() == RnnFailure::kGpuFault) throw;
    outcome.ours.refusal = error.what();
  }
  double best_peer = 0;
  for (const Timed& peer : outcome.peers)
    if (peer.microseconds > 0 && (best_peer == 0 || peer.microseconds < best_peer)) best_peer = peer.microseconds;
  if (best_peer > 0 && outcome.ours.microseconds > 0) outcome.ratio = best_peer / outcome.ours.microseconds;
  return outcome;
}

}  // namespace millrace::rnn
