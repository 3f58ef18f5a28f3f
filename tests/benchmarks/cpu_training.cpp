// Full training steps (forward, error back-propagation, gradients, momentum SGD) of one process on the CPU, against
// PyTorch doing the same in the same run, when PyTorch is installed.
//
//   build/release/bin/cpu_training                                     # all cases, 1 and 2 threads
//   build/release/bin/cpu_training --cases vgg16-cifar:32 --threads 2 --profile --no-torch
//   build/release/bin/cpu_training --json cpu_training.json
//   build/release/bin/cpu_training --bf16 --no-torch --cases alexnet:8,alexnet:32       # products in bf16 against fp32
//
// Both sides repeat a step on the same random images for `--seconds` and report the fastest one: by processor time on one
// thread, which other programs do not lengthen, and by elapsed time on more, which asks for a quiet machine. PyTorch gets the network layer
// by layer from this program: both train the same thing. The figures hold for the PyTorch that is installed, named in the output; newer
// builds of it are faster.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/random.h"
#include "core/cpu/cpu_device.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "core/train/executor.h"
#include "tests/benchmarks/timed_device.h"

namespace millrace {

namespace {

using nlohmann::json;

struct Case {
  std::string model;
  int64_t batch = 1;
};

Case parse_case(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) fail(ErrorCode::kUsage, "case \"{}\": expected MODEL:BATCH, as in vgg16-cifar:32", text);
  return {text.substr(0, colon), std::stoll(text.substr(colon + 1))};
}

// Seconds of processor time on one thread, of elapsed time on several.
double now(int threads) {
  timespec time{};
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The network as the Python side reads it.
json describe(const Graph& graph) {
  json layers = json::array();
  for (const Node& node : graph.nodes()) {
    json layer{{"name", node.layer.name}, {"op", name_of(node.layer.operation)}, {"inputs", json::array()}};
    for (const int64_t input : node.inputs) layer["inputs"].push_back(graph.name_of(input));
    layer["in"] = node.input_shapes[0].channels;
    layer["out"] = node.output.channels;
    if (const auto* conv = std::get_if<Conv2d>(&node.layer.operation))
      layer.update({{"kernel", {conv->kernel_h, conv->kernel_w}},
                    {"stride", {conv->stride_h, conv->stride_w}},
                    {"pad", {conv->pad_h, conv->pad_w}},
                    {"dilation", {conv->dilation_h, conv->dilation_w}},
                    {"groups", conv->groups},
                    {"bias", conv->bias}});
    if (const auto* dense = std::get_if<Dense>(&node.layer.operation)) layer["bias"] = dense->bias;
    if (const auto* pool = std::get_if<Pool2d>(&node.layer.operation))
      layer.update({{"kernel", {pool->kernel_h, pool->kernel_w}},
                    {"stride", {pool->stride_h, pool->stride_w}},
                    {"pad", {pool->pad_h, pool->pad_w}},
                    {"ceil", pool->ceil_mode},
                    {"count_pad", pool->count_include_pad}});
    if (const auto* norm = std::get_if<LocalResponseNorm>(&node.layer.operation))
      layer.update({{"size", norm->size}, {"alpha", norm->alpha}, {"beta", norm->beta}, {"k", norm->k}});
    if (const auto* norm = std::get_if<BatchNorm>(&node.layer.operation))
      layer.update({{"epsilon", norm->epsilon}, {"momentum", norm->momentum}});
    if (const auto* dropout = std::get_if<Dropout>(&node.layer.operation)) layer["probability"] = dropout->probability;
    layers.push_back(std::move(layer));
  }
  const Shape& input = graph.model().input;
  return {{"input", {input.channels, input.height, input.width}}, {"classes", graph.classes()}, {"layers", layers}};
}

void print_profile(const TimedDevice& device, int64_t steps) {
  double total = 0;
  for (const auto& [what, seconds] : device.seconds()) total += seconds;
  for (const auto& [what, seconds] : device.seconds())
    fmt::print("    {:<22} {:9.3f} ms {:5.1f}%\n", what, 1e3 * seconds / static_cast<double>(steps), 100 * seconds / total);
  fmt::print("    {:<22} {:9.3f} ms\n", "sum", 1e3 * total / static_cast<double>(steps));
}

// Images per second of ours.
double measure(const Case& c, int threads, double seconds, bool profile, CpuPrecision precision = CpuPrecision::kFloat32) {
  const Graph graph(zoo_model(c.model));
  const Plan plan = single_device_plan(graph, {.cluster = uniform_cluster("cpu", 1), .mini_batch = c.batch, .micro_batch = c.batch});
  const std::unique_ptr<Device> device = make_cpu_device({.threads = threads, .precision = precision});
  TimedDevice timed(*device);
  SegmentExecutor segment(plan, graph, 0, profile ? static_cast<Device&>(timed) : *device);
  segment.initialize(1);

  const Philox draw(1, stream_id("benchmark"));
  std::vector<float> pixels(static_cast<size_t>(c.batch * graph.model().input.elements()));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = draw.uniform(i) - 0.5f;
  std::vector<int64_t> ids(static_cast<size_t>(c.batch));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<int32_t> labels;
  for (const int64_t id : ids) labels.push_back(static_cast<int32_t>(id % graph.classes()));

  UpdateArguments update{.optimizer = plan.optimizer, .learning_rate = 1e-3};
  const auto step = [&](int64_t index) {
    const MicroBatch batch{.index = index,
                           .epoch = 0,
                           .training = true,
                           .seed = 1,
                           .sample_ids = ids,
                           .labels = labels,
                           .error_scale = 1.0 / static_cast<double>(c.batch)};
    Score score;
    segment.forward(batch, pixels, nullptr, &score);
    segment.error_back(batch);
    segment.parameter_gradient(batch);
    update.step = index + 1;
    segment.update(update);
  };
  constexpr int64_t kWarmUp = 2;
  constexpr int64_t kLeastSteps = 3;
  int64_t index = 0;
  for (; index < kWarmUp; ++index) step(index);
  timed.reset();
  std::vector<double> steps;
  double passed = 0;
  while (static_cast<int64_t>(steps.size()) < kLeastSteps || passed < seconds) {
    const double begin = now(threads);
    step(index++);
    steps.push_back(now(threads) - begin);
    passed += steps.back();
  }
  if (profile) {
    print_profile(timed, static_cast<int64_t>(steps.size()));
    for (const std::string& line : segment.implementations()) fmt::print("    {}\n", line);
  }
  return static_cast<double>(c.batch) / *std::ranges::min_element(steps);
}

// The peer's answer: {"images_per_second": .., "version": ..}, or null when it is not installed.
json ask_torch(const Case& c, int threads, double seconds) {
  const std::filesystem::path network = std::filesystem::temp_directory_path() / fmt::format("millrace-{}.json", c.model);
  write_atomically(network, describe(Graph(zoo_model(c.model))).dump());
  const std::string command =
      fmt::format("OMP_NUM_THREADS={} /usr/bin/python3 {} --network {} --batch {} --threads {} --seconds {} 2>/dev/null", threads,
                  MILLRACE_TORCH_PEER, network.string(), c.batch, threads, seconds);
  std::string answer;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    std::array<char, 4096> buffer;
    while (const size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) answer.append(buffer.data(), size);
    pclose(pipe);
  }
  std::filesystem::remove(network);
  return json::accept(answer) ? json::parse(answer) : json();
}

int run(int argc, char** argv) {
  CLI::App app{"Training steps per second on the CPU, against PyTorch where it is installed"};
  std::vector<std::string> texts{"vgg16-cifar:8", "vgg16-cifar:32", "vgg16-cifar:128", "alexnet:1",
                                 "alexnet:8",     "vgg16:1",        "vgg16:8",         "resnet18-cifar:32"};
  std::vector<int> threads{1, 2};
  double seconds = 4;
  bool profile = false, no_torch = false, bf16 = false;
  std::string json_path;
  app.add_option("--cases", texts, "MODEL:BATCH, several allowed")->delimiter(',');
  app.add_option("--threads", threads, "thread counts")->delimiter(',');
  app.add_option("--seconds", seconds, "to measure each case and side");
  app.add_flag("--profile", profile, "where the time goes, layer by layer (ours)");
  app.add_flag("--no-torch", no_torch, "measure our side alone");
  app.add_flag("--bf16", bf16, "measure products in bf16, too");
  app.add_option("--json", json_path, "write the results there");
  CLI11_PARSE(app, argc, argv);

  json results = json::array();
  fmt::print("{}\n{:<16}{:>6}{:>9}{:>12}{:>12}{:>8}\n", make_cpu_device()->description(), "model", "batch", "threads", "millrace/s",
             "torch/s", "ratio");
  std::string version;
  for (const std::string& text : texts) {
    const Case c = parse_case(text);
    for (const int count : threads) {
      const double ours = measure(c, count, seconds, profile);
      const json peer = no_torch ? json() : ask_torch(c, count, seconds);
      json result{{"model", c.model}, {"batch", c.batch}, {"threads", count}, {"images_per_second", ours}};
      if (peer.is_null()) {
        fmt::print("{:<16}{:>6}{:>9}{:>12.2f}{:>12}{:>8}\n", c.model, c.batch, count, ours, "-", "-");
      } else {
        const double theirs = peer.at("images_per_second");
        version = peer.at("version");
        result.update({{"torch_images_per_second", theirs}, {"ratio", ours / theirs}, {"torch_version", version}});
        fmt::print("{:<16}{:>6}{:>9}{:>12.2f}{:>12.2f}{:>8.2f}\n", c.model, c.batch, count, ours, theirs, ours / theirs);
      }
      if (bf16) {
        const double halves = measure(c, count, seconds, profile, CpuPrecision::kBfloat16);
        result.update({{"bf16_images_per_second", halves}, {"bf16_ratio", halves / ours}});
        fmt::print("{:<16}{:>6}{:>9}{:>12.2f}  in bf16, {:.2f} times fp32\n", "", "", "", halves, halves / ours);
      }
      std::fflush(stdout);
      results.push_back(std::move(result));
    }
  }
  if (!version.empty()) fmt::print("PyTorch {} from the system's packages; newer builds of it are faster.\n", version);
  if (version.empty() && !no_torch) fmt::print("PyTorch is not installed (package python3-torch): measured alone.\n");
  if (!json_path.empty()) write_atomically(json_path, results.dump(2) + "\n");
  return 0;
}

}  // namespace

}  // namespace millrace

int main(int argc, char** argv) {
  try {
    return millrace::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
