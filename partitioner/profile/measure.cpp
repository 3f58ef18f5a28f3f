#include "partitioner/profile/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/random.h"
#include "core/plan/assemble.h"
#include "core/plan/segment_program.h"
#include "core/train/executor.h"

namespace millrace {
namespace {

constexpr int64_t kWarmUpSteps = 2;
constexpr int64_t kMostSteps = 10'000;

// What the groups took in the step at hand.
class Stopwatch {
 public:
  explicit Stopwatch(const Graph& graph) : graph_(graph), forward_(graph.groups().size(), 0), backward_(forward_), kept_bytes_(forward_) {}

  size_t group_of(const std::string& layer) const { return to_size(graph_.node(graph_.index_of(layer)).group); }
  template <typename Work>
  void forward(size_t group, Device& device, Work work) {
    forward_[group] += seconds_of(device, work);
  }
  template <typename Work>
  void backward(size_t group, Device& device, Work work) {
    backward_[group] += seconds_of(device, work);
  }
  void keeps(size_t group, int64_t bytes) { kept_bytes_[group] += static_cast<double>(bytes); }
  void reset() {
    std::fill(forward_.begin(), forward_.end(), 0);
    std::fill(backward_.begin(), backward_.end(), 0);
  }

  const std::vector<double>& forward_seconds() const { return forward_; }
  const std::vector<double>& backward_seconds() const { return backward_; }
  const std::vector<double>& kept_bytes() const { return kept_bytes_; }

 private:
  template <typename Work>
  static double seconds_of(Device& device, Work work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    device.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const Graph& graph_;
  std::vector<double> forward_, backward_, kept_bytes_;
};

class WatchedKernel final : public Kernel {
 public:
  WatchedKernel(std::unique_ptr<Kernel> kernel, Device& device, Stopwatch& watch, size_t group)
      : kernel_(std::move(kernel)), device_(device), watch_(watch), group_(group) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return kernel_->make_parameters(); }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return kernel_->make_gradients(); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return kernel_->make_state(); }
  std::unique_ptr<Tensor> make_keep() override {
    std::unique_ptr<Tensor> keep = kernel_->make_keep();
    if (keep) watch_.keeps(group_, keep->bytes());
    return keep;
  }
  void parameters_changed(std::span<const Tensor* const> parameters) override { kernel_->parameters_changed(parameters); }
  void forward(const ForwardArguments& arguments) override {
    watch_.forward(group_, device_, [&] { kernel_->forward(arguments); });
  }
  void error_back(const ErrorBackArguments& arguments) override {
    watch_.backward(group_, device_, [&] { kernel_->error_back(arguments); });
  }
  void parameter_gradient(const GradientArguments& arguments) override {
    watch_.backward(group_, device_, [&] { kernel_->parameter_gradient(arguments); });
  }
  std::string implementation() const override { return kernel_->implementation(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  Device& device_;
  Stopwatch& watch_;
  size_t group_;
};

// Another device, with a stopwatch on its kernels.
class WatchedDevice final : public Device {
 public:
  WatchedDevice(Device& device, Stopwatch& watch) : device_(device), watch_(watch) {}

  std::string description() const override { return device_.description(); }
  ElementType compute_type() const override { return device_.compute_type(); }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<WatchedKernel>(device_.make_kernel(spec), device_, watch_, watch_.group_of(spec.layer));
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override { return device_.make_tensor(spec); }
  void write(Tensor& tensor, ChannelRange channels, ConstHostNumbers host) override { device_.write(tensor, channels, host); }
  void read(const Tensor& tensor, ChannelRange channels, HostNumbers host) override { device_.read(tensor, channels, host); }
  void zero(Tensor& tensor) override { device_.zero(tensor); }
  void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t begin, bool add) override {
    device_.copy_channels(from, channels, to, begin, add);
  }
  void update(const UpdateArguments& arguments, Tensor& parameter, const Tensor& gradient, std::span<Tensor* const> slots) override {
    device_.update(arguments, parameter, gradient, slots);
  }
  double squared_norm(const Tensor& tensor) override { return device_.squared_norm(tensor); }
  bool all_finite(const Tensor& tensor) override { return device_.all_finite(tensor); }
  void synchronize() override { device_.synchronize(); }

 private:
  Device& device_;
  Stopwatch& watch_;
};

// Random samples of the kind the network takes, and labels its loss accepts.
struct RandomBatch {
  std::vector<float> pixels;
  std::vector<int64_t> ids;
  std::vector<int32_t> labels;

  RandomBatch(const Graph& graph, const MeasureOptions& options) {
    const Model& model = graph.model();
    const Philox draw(options.seed, stream_id("profile", "input"));
    double vocabulary = 0;
    for (const Layer& layer : model.layers)
      if (const auto* embedding = std::get_if<Embedding>(&layer.operation)) vocabulary = static_cast<double>(embedding->vocabulary);
    pixels.resize(to_size(options.micro_batch * model.input.elements()));
    for (size_t i = 0; i < pixels.size(); ++i) {
      const double value = draw.uniform(i);
      pixels[i] = static_cast<float>(model.input_kind == InputKind::kTokens ? std::floor(value * vocabulary) : value - 0.5);
    }
    ids.resize(to_size(options.micro_batch));
    std::iota(ids.begin(), ids.end(), 0);

    const Operation& loss = graph.node(graph.loss()).layer.operation;
    const Shape& scores = graph.shape_of(graph.scores());
    const auto* ctc = std::get_if<CtcLoss>(&loss);
    // A quarter as many labels as steps: any of them can be aligned, whatever repeats.
    const int64_t per_sample = ctc != nullptr ? std::max<int64_t>(1, scores.height / 4) : scores.plane();
    const Philox label_draw(options.seed, stream_id("profile", "labels"));
    const auto classes = static_cast<uint64_t>(graph.classes());
    for (int64_t i = 0; i < options.micro_batch * per_sample; ++i) {
      auto label = static_cast<int64_t>(label_draw.below(static_cast<uint64_t>(i), ctc != nullptr && classes > 1 ? classes - 1 : classes));
      if (ctc != nullptr && label >= ctc->blank) ++label;
      labels.push_back(static_cast<int32_t>(label));
    }
  }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Bytes of one micro-batch that later groups take of what exists behind each group, the network's input included.
std::vector<double> crossing_bytes_of(const Graph& graph, double bytes_per_element) {
  const auto groups = static_cast<int64_t>(graph.groups().size());
  std::vector<int64_t> elements(to_size(groups), 0);
  const auto alive = [&](const Shape& shape, int64_t made, int64_t last_taken) {
    for (int64_t group = made; group < last_taken; ++group) item(elements, group) += shape.elements();
  };
  int64_t input_taken = 0;
  for (const Node& node : graph.nodes()) {
    int64_t last = node.group;
    for (const int64_t consumer : node.consumers) last = std::max(last, graph.node(consumer).group);
    alive(node.output, node.group, last);
    if (std::count(node.inputs.begin(), node.inputs.end(), kNetworkInput) != 0) input_taken = std::max(input_taken, node.group);
  }
  alive(graph.model().input, 0, input_taken);
  std::vector<double> bytes;
  for (const int64_t count : elements) bytes.push_back(static_cast<double>(count) * bytes_per_element);
  return bytes;
}

}  // namespace

Profile measure_profile(const Graph& graph, Device& device, const MeasureOptions& options,
                        const std::function<void(int64_t done, int64_t total)>& progress) {
  if (graph.loss() < 0)
    fail(ErrorCode::kUsage, "{} has no loss, so nothing goes backward; add one to profile its training", graph.model().name);
  if (options.micro_batch < 1) fail(ErrorCode::kUsage, "a micro-batch of {}, expected 1 or more", options.micro_batch);
  if (options.repeats < 1 || options.repeats > kMostSteps)
    fail(ErrorCode::kUsage, "{} repeats, expected 1 to {}", options.repeats, kMostSteps);

  const Plan plan = single_device_plan(
      graph, {.cluster = uniform_cluster("cpu", 1), .mini_batch = options.micro_batch, .micro_batch = options.micro_batch});
  Stopwatch watch(graph);
  WatchedDevice watched(device, watch);
  SegmentExecutor segment(plan, graph, 0, watched);
  segment.initialize(options.seed);
  const RandomBatch random(graph, options);

  const size_t groups = graph.groups().size();
  std::vector<std::vector<double>> forward(groups), backward(groups);
  for (int64_t step = 0; step < kWarmUpSteps + options.repeats; ++step) {
    const MicroBatch batch{.index = step,
                           .epoch = 0,
                           .training = true,
                           .seed = options.seed,
                           .sample_ids = random.ids,
                           .labels = random.labels,
                           .error_scale = 1.0 / static_cast<double>(options.micro_batch)};
    watch.reset();
    Score score;
    segment.forward(batch, random.pixels, nullptr, &score);
    segment.error_back(batch);
    segment.parameter_gradient(batch);
    if (progress) progress(step + 1, kWarmUpSteps + options.repeats);
    if (step < kWarmUpSteps) continue;
    for (size_t group = 0; group < groups; ++group) {
      forward[group].push_back(watch.forward_seconds()[group]);
      backward[group].push_back(watch.backward_seconds()[group]);
    }
  }

  const double bytes_per_element = static_cast<double>(bits_of(device.compute_type())) / 8;
  const std::vector<double> crossing = crossing_bytes_of(graph, bytes_per_element * static_cast<double>(options.micro_batch));
  Profile profile;
  profile.origin = graph.model().name;
  for (size_t group = 0; group < groups; ++group) {
    ProfileNode node;
    node.name = graph.name_of(graph.groups()[group].head);
    node.forward_seconds = median(forward[group]);
    node.backward_seconds = median(backward[group]);
    node.out_bytes = crossing[group];
    node.activation_bytes = watch.kept_bytes()[group];
    profile.nodes.push_back(std::move(node));
    if (group > 0) profile.edges.push_back({static_cast<int64_t>(group) - 1, static_cast<int64_t>(group)});
  }
  for (const Node& node : graph.nodes())
    if (node.trained)
      for (const ParameterSpec& parameter : node.parameters)
        if (parameter.trained)
          item(profile.nodes, node.group).parameter_bytes += static_cast<double>(parameter.elements()) * bytes_per_element;
  for (const Value& value : segment.program().values) {
    const size_t group = value.node == kNetworkInput ? 0 : to_size(graph.node(value.node).group);
    profile.nodes[group].activation_bytes += static_cast<double>(value.shape.elements() * options.micro_batch) * bytes_per_element;
  }
  return profile;
}

}  // namespace millrace
