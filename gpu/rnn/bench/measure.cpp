#include "gpu/rnn/bench/measure.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "gpu/rnn/dispatch.h"
#include "gpu/rnn/layer.h"

namespace millrace::rnn {
namespace {

constexpr int kWarmUp = 5;

// `prepare` is not part of the time.
double median_microseconds(
    CudaMachine& gpu, int runs, const std::function<void()>& run, const std::function<void()>& prepare = [] {}) {
  for (int i = 0; i < kWarmUp; ++i) {
    prepare();
    run();
  }
  gpu.finish();
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  require(cudaEventCreate(&begin), "timing");
  require(cudaEventCreate(&end), "timing");
  std::vector<float> times;
  for (int i = 0; i < runs; ++i) {
    prepare();
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

// What every way of running a case is given.
struct Data {
  Weights weights;
  std::vector<float> input, output_gradient, first_state, first_cell;
};

Data random_data(const RnnShape& shape) {
  std::mt19937 random(17);
  const auto values = [&](long long count, double range) {
    std::uniform_real_distribution<float> any(-static_cast<float>(range), static_cast<float>(range));
    std::vector<float> made(static_cast<std::size_t>(count));
    with_format(shape.precision, [&]<class S>(S) {
      for (float& value : made) value = to_float(from_float<S>(any(random)));
    });
    return made;
  };
  const double size = 1 / std::sqrt(static_cast<double>(shape.hidden));
  const long long rows = 1LL * shape.gates() * shape.hidden;
  const long long samples = 1LL * shape.steps * shape.batch;
  Data data;
  data.weights.input = values(rows * shape.inputs, size);
  data.weights.recurrent = values(rows * shape.hidden, size);
  data.weights.bias = values(rows, size);
  if (shape.recurrence == Recurrence::kGru) data.weights.candidate_bias = values(shape.hidden, size);
  data.input = values(samples * shape.inputs, 1);
  data.output_gradient = values(samples * shape.outputs(), 1);
  data.first_state = values(1LL * shape.batch * shape.hidden, 1);
  if (shape.recurrence == Recurrence::kLstm) data.first_cell = values(1LL * shape.batch * shape.hidden, 1);
  return data;
}

void upload(CudaMachine& gpu, const std::vector<float>& values, void* to, Precision precision) {
  with_format(precision, [&]<class S>(S) {
    std::vector<S> raw(values.size());
    std::transform(values.begin(), values.end(), raw.begin(), [](float value) { return from_float<S>(value); });
    gpu.copy_to(to, raw.data(), raw.size() * sizeof(S));
  });
}

std::vector<float> download(CudaMachine& gpu, const void* from, std::size_t count, Precision precision) {
  std::vector<float> values(count);
  with_format(precision, [&]<class S>(S) {
    std::vector<S> raw(count);
    gpu.copy_from(raw.data(), from, count * sizeof(S));
    std::transform(raw.begin(), raw.end(), values.begin(), [](S value) { return to_float(value); });
  });
  return values;
}

// Weights and first states of a layer, ours or a library's.
template <class Layer>
void prepare(Layer& layer, const RnnShape& shape, const Data& data) {
  layer.set_weights(0, data.weights);
  const float* const cell = data.first_cell.empty() ? nullptr : data.first_cell.data();
  with_format(shape.precision, [&]<class S>(S) {
    std::vector<S> state(data.first_state.size());
    std::transform(data.first_state.begin(), data.first_state.end(), state.begin(), [](float value) { return from_float<S>(value); });
    layer.set_first_state(0, state.data(), cell);
  });
}

template <class Layer>
void add_gradients(Layer& layer, const RnnShape& shape, Results& results) {
  results.gradients = layer.gradients(0);
  results.first_state_gradient = layer.first_state_gradient(0);
  if (shape.recurrence == Recurrence::kLstm) results.first_cell_gradient = layer.first_cell_gradient(0);
}

// Sequences on the GPU in a case's format, for a library's layers.
class Sequences {
 public:
  Sequences(CudaMachine& gpu, const RnnShape& shape, const Data& data) : gpu_(gpu) {
    const std::size_t element = static_cast<std::size_t>(bytes_of(shape.precision));
    input = gpu.allocate(data.input.size() * element);
    output = gpu.allocate(data.output_gradient.size() * element);
    output_gradient = gpu.allocate(data.output_gradient.size() * element);
    input_gradient = gpu.allocate(data.input.size() * element);
    upload(gpu, data.input, input, shape.precision);
    upload(gpu, data.output_gradient, output_gradient, shape.precision);
  }
  ~Sequences() {
    for (void* memory : {input, output, output_gradient, input_gradient}) gpu_.release(memory);
  }
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  void* input = nullptr;
  void* output = nullptr;
  void* output_gradient = nullptr;
  void* input_gradient = nullptr;

 private:
  CudaMachine& gpu_;
};

// One algorithm of a library's. Throws RnnError when it refuses.
double time_peer(CudaMachine& gpu, LibraryLayer& layer, const RnnShape& shape, const Data& data, int runs, Results& results) {
  const Sequences at(gpu, shape, data);
  prepare(layer, shape, data);
  const auto run = [&] {
    layer.forward(at.input, at.output);
    if (shape.training) layer.backward(at.input, at.output, at.output_gradient, at.input_gradient);
  };
  run();
  gpu.finish();
  results.output = download(gpu, at.output, data.output_gradient.size(), shape.precision);
  if (shape.training) {
    results.input_gradient = download(gpu, at.input_gradient, data.input.size(), shape.precision);
    add_gradients(layer, shape, results);
  }
  return median_microseconds(gpu, runs, run);
}

void fill(CudaMachine& gpu, RnnLayer& layer, const RnnShape& shape, const Data& data) {
  prepare(layer, shape, data);
  upload(gpu, data.input, layer.input(), shape.precision);
  if (shape.training) upload(gpu, data.output_gradient, layer.output_gradient(), Precision::kFloat);
}

// A filled layer of ours, whoever runs it.
double time_layer(CudaMachine& gpu, RnnLayer& layer, const RnnShape& shape, const Data& data, int runs, Results& results) {
  const auto run = [&] {
    layer.forward();
    if (shape.training) layer.backward();
  };
  run();
  layer.check();
  results.output = download(gpu, layer.output(), data.output_gradient.size(), shape.precision);
  if (shape.training) {
    results.input_gradient = download(gpu, layer.input_gradient(), data.input.size(), Precision::kFloat);
    add_gradients(layer, shape, results);
  }
  const double time = median_microseconds(gpu, runs, run);
  layer.check();
  return time;
}

// The fastest layouts of our own kernels, by the clock; says which, and which could not be measured.
std::string use_best_layouts(CudaMachine& gpu, RnnLayer& layer, const RnnShape& shape, const Effort& effort,
                             std::vector<std::string>& passed_over) {
  std::string chosen;
  for (const bool backward : {false, true}) {
    if (backward && !shape.training) continue;
    const Problem problem{shape.recurrence, backward, shape.precision, shape.hidden, shape.batch, 1};
    layer.forward();  // what the recurrence reads
    if (backward) layer.backward();
    const std::optional<Layout> best = choose_layout(
        gpu, problem, effort.constants, effort.layouts, effort.file,
        [&](const Layout& layout) {
          layer.use_layout(backward, layout);
          const double time = median_microseconds(
              gpu, 11, [&] { layer.run_recurrence(backward); }, [&] { layer.prepare_recurrence(backward); });
          layer.check();
          return 1e-6 * time;
        },
        &passed_over);
    layer.use_layout(backward, best);
    if (!backward) chosen = best ? name_of(*best) : why_not(gpu.limits(), problem);
  }
  return chosen;
}

// What a case cannot do is said in the table; a GPU that fails ends everything.
template <class Body>
void or_refusal(Timed& timed, Body body) {
  try {
    body();
  } catch (const RnnError& error) {
    if (error.kind() == RnnFailure::kNoGpu || error.kind() == RnnFailure::kGpuFault) throw;
    timed.refusal = error.what();
  }
}

// The recurrence of a layer alone, in the layouts of `like`.
void time_recurrence(CudaMachine& gpu, const RnnLayer& like, const RnnShape& of, const Data& data, int runs, RecurrenceTimes& times) {
  for (const int steps : {kFewSteps, kManySteps}) {
    RnnShape shape = of;
    shape.steps = steps;
    RnnLayer layer(gpu, shape, Runner{});
    for (const bool backward : {false, true})
      if (!backward || shape.training) layer.use_layout(backward, like.layout(backward));
    prepare(layer, shape, data);
    gpu.fill(layer.input(), 0,
             static_cast<std::size_t>(steps) * static_cast<std::size_t>(shape.batch * shape.inputs * bytes_of(shape.precision)));
    if (shape.training)
      gpu.fill(layer.output_gradient(), 0,
               static_cast<std::size_t>(steps) * static_cast<std::size_t>(shape.batch * shape.outputs()) * sizeof(float));
    layer.forward();
    if (shape.training) layer.backward();
    layer.check();
    times.steps.push_back(steps);
    for (const bool backward : {false, true}) {
      if (backward && !shape.training) continue;
      (backward ? times.backward : times.forward)
          .push_back(median_microseconds(
              gpu, runs, [&] { layer.run_recurrence(backward); }, [&] { layer.prepare_recurrence(backward); }));
      layer.check();
    }
  }
}

}  // namespace

Outcome measure(CudaMachine& gpu, const Case& one, const Effort& effort) {
  const RnnShape& shape = one.shape;
  Outcome outcome;
  outcome.one = one;
  const Data data = random_data(shape);
  Library* const cudnn = gpu.dnn_library();

  Results reference;
  for (const std::string& algorithm : cudnn != nullptr ? cudnn->algorithms() : std::vector<std::string>()) {
    Timed timed;
    timed.what = algorithm;
    or_refusal(timed, [&] {
      Results results;
      const std::unique_ptr<LibraryLayer> layer = cudnn->prepare(algorithm, shape);
      timed.microseconds = one.layers * time_peer(gpu, *layer, shape, data, effort.runs, results);
      if (reference.output.empty() && algorithm == cudnn->algorithms().front()) reference = results;
      if (!reference.output.empty()) timed.comparison = compare(shape, results, reference);
    });
    outcome.peers.push_back(timed);
  }
  outcome.compared = !reference.output.empty();

  outcome.ours.what = "ours";
  or_refusal(outcome.ours, [&] {
    RnnLayer layer(gpu, shape, Runner{}, effort.constants);
    fill(gpu, layer, shape, data);
    outcome.layout = use_best_layouts(gpu, layer, shape, effort, outcome.passed_over);
    Results results;
    outcome.ours.microseconds = one.layers * time_layer(gpu, layer, shape, data, effort.runs, results);
    if (outcome.compared) outcome.ours.comparison = compare(shape, results, reference);
    if (one.group != "grid") return;
    try {
      time_recurrence(gpu, layer, shape, data, effort.runs / 4 + 1, outcome.recurrence);
    } catch (const RnnError& error) {  // as a sequence that does not fit into memory
      if (error.kind() == RnnFailure::kNoGpu || error.kind() == RnnFailure::kGpuFault) throw;
      outcome.recurrence.refusal = error.what();
    }
  });

  // The choice, from what was just measured; and a layer made by it, as a user's is.
  const auto seconds = [&](const Timed& timed) {
    if (!timed.refusal.empty()) throw RnnError(RnnFailure::kUnsupportedSize, timed.refusal);
    return 1e-6 * timed.microseconds / one.layers;
  };
  outcome.runner = choose_runner(
      gpu, shape, effort.file, [&] { return seconds(outcome.ours); },
      [&](const std::string& algorithm) {
        for (const Timed& peer : outcome.peers)
          if (peer.what == algorithm) return seconds(peer);
        throw RnnError(RnnFailure::kMissingPart, "not measured");
      });
  outcome.chosen = outcome.ours;
  outcome.chosen.what = "chosen";
  if (outcome.runner.is_library()) {
    outcome.chosen = Timed();
    outcome.chosen.what = "chosen";
    or_refusal(outcome.chosen, [&] {
      RnnLayer layer(gpu, shape, outcome.runner, effort.constants);
      fill(gpu, layer, shape, data);
      Results results;
      outcome.chosen.microseconds = one.layers * time_layer(gpu, layer, shape, data, effort.runs, results);
      if (outcome.compared) outcome.chosen.comparison = compare(shape, results, reference);
    });
  }

  outcome.correct =
      outcome.compared && outcome.chosen.comparison.correct && (!outcome.ours.refusal.empty() || outcome.ours.comparison.correct);
  double best_peer = 0;
  for (const Timed& peer : outcome.peers)
    if (peer.microseconds > 0 && (best_peer == 0 || peer.microseconds < best_peer)) best_peer = peer.microseconds;
  if (best_peer > 0 && outcome.ours.microseconds > 0) outcome.ratio = best_peer / outcome.ours.microseconds;
  if (best_peer > 0 && outcome.chosen.microseconds > 0) outcome.chosen_ratio = best_peer / outcome.chosen.microseconds;
  return outcome;
}

}  // namespace millrace::rnn
