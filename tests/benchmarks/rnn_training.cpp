// Full training steps (forward, error back-propagation, gradients, momentum SGD) of stacks of recurrent layers on the CPU,
// against PyTorch doing the same in the same run, when PyTorch is installed.
//
//   build/release/bin/rnn_training                                        # all cases, 1 and 2 threads
//   build/release/bin/rnn_training --cases lstm:5x256:4 --threads 1 --profile --no-torch
//   build/release/bin/rnn_training --torch-libraries /usr/lib/x86_64-linux-gnu/openblas-pthread --json rnn_training.json
//
// A case is CELL:LAYERSxUNITS:BATCH over --steps time steps, with as many features as units; behind the last step a dense
// layer tells ten classes apart. Both sides repeat a step on the same random sequences for `--seconds` and report the
// fastest one: by processor time on one thread, by elapsed time on more, which asks for a quiet machine.
// PyTorch multiplies with whatever BLAS it finds: the output names it. With the reference BLAS it is many times slower than
// with OpenBLAS, whose folder --torch-libraries puts in front. Newer builds of PyTorch are faster.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/random.h"
#include "core/cpu/cpu_device.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/train/executor.h"
#include "tests/benchmarks/timed_device.h"

namespace millrace {

namespace {

using nlohmann::json;

constexpr int64_t kClasses = 10;

struct Case {
  std::string cell;
  int64_t layers = 1, hidden = 1, batch = 1;
};

Case parse_case(const std::string& text) {
  Case c;
  std::array<char, 32> cell{};
  long layers = 0, hidden = 0, batch = 0;
  if (std::sscanf(text.c_str(), "%31[a-z_]:%ldx%ld:%ld", cell.data(), &layers, &hidden, &batch) != 4 || layers < 1 || hidden < 1 ||
      batch < 1)
    fail(ErrorCode::kUsage, "case \"{}\": expected CELL:LAYERSxUNITS:BATCH, as in lstm:5x256:4", text);
  return {cell.data(), layers, hidden, batch};
}

Recurrent cell_of(const Case& c) {
  if (c.cell == "lstm") return {.cell = CellKind::kLstm, .hidden = c.hidden};
  if (c.cell == "gru") return {.cell = CellKind::kGru, .hidden = c.hidden, .reset_after = true};  // PyTorch's
  if (c.cell == "rnn_tanh") return {.cell = CellKind::kVanillaTanh, .hidden = c.hidden};
  if (c.cell == "rnn_relu") return {.cell = CellKind::kVanillaRelu, .hidden = c.hidden};
  fail(ErrorCode::kUsage, "cell \"{}\"; known are lstm, gru, rnn_tanh and rnn_relu", c.cell);
}

Model model_of(const Case& c, int64_t steps) {
  ModelBuilder net("benchmark", {c.hidden, steps, 1});
  for (int64_t i = 1; i <= c.layers; ++i) net.layer(fmt::format("{}{}", c.cell, i), cell_of(c));
  net.layer("last", LastStep{});
  net.dense("fc", kClasses);
  Model model = net.finish();
  model.input_kind = InputKind::kFeatures;
  for (Layer& layer : model.layers) layer.initializer = Initializer::kTorchUniform;
  return model;
}

// Seconds of processor time on one thread, of elapsed time on several.
double now(int threads) {
  timespec time{};
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void print_profile(const TimedDevice& device, int64_t steps) {
  double total = 0;
  for (const auto& [what, seconds] : device.seconds()) total += seconds;
  for (const auto& [what, seconds] : device.seconds())
    fmt::print("    {:<22} {:9.3f} ms {:5.1f}%\n", what, 1e3 * seconds / static_cast<double>(steps), 100 * seconds / total);
  fmt::print("    {:<22} {:9.3f} ms\n", "sum", 1e3 * total / static_cast<double>(steps));
}

// Sequences per second of ours.
double measure(const Graph& graph, int64_t batch_size, int threads, double seconds, bool profile,
               CpuPrecision precision = CpuPrecision::kFloat32) {
  const Plan plan = single_device_plan(graph, {.cluster = uniform_cluster("cpu", 1), .mini_batch = batch_size, .micro_batch = batch_size});
  const std::unique_ptr<Device> device = make_cpu_device({.threads = threads, .precision = precision});
  TimedDevice timed(*device);
  SegmentExecutor segment(plan, graph, 0, profile ? static_cast<Device&>(timed) : *device);
  segment.initialize(1);

  const Philox draw(1, stream_id("benchmark"));
  std::vector<float> features(static_cast<size_t>(batch_size * graph.model().input.elements()));
  for (size_t i = 0; i < features.size(); ++i) features[i] = draw.uniform(i) - 0.5f;
  std::vector<int64_t> ids(static_cast<size_t>(batch_size));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<int32_t> labels;
  for (const int64_t id : ids) labels.push_back(static_cast<int32_t>(id % kClasses));

  UpdateArguments update{.optimizer = plan.optimizer, .learning_rate = 1e-3};
  const auto step = [&](int64_t index) {
    const MicroBatch batch{
        .index = index, .seed = 1, .sample_ids = ids, .labels = labels, .error_scale = 1.0 / static_cast<double>(batch_size)};
    Score score;
    segment.forward(batch, features, nullptr, &score);
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
  if (profile) print_profile(timed, static_cast<int64_t>(steps.size()));
  return static_cast<double>(batch_size) / *std::ranges::min_element(steps);
}

// The peer's answer: {"sequences_per_second": .., "version": .., "blas": ..}, or null when it is not installed.
json ask_torch(const Case& c, int64_t steps, int threads, double seconds, const std::string& libraries) {
  const std::string path = libraries.empty() ? "" : fmt::format("LD_LIBRARY_PATH={} ", libraries);
  const std::string command = fmt::format(
      "{}OMP_NUM_THREADS={} OPENBLAS_NUM_THREADS={} /usr/bin/python3 {} --cell {} --layers {} --hidden {} --batch {} --steps {} --threads "
      "{} "
      "--seconds {} 2>/dev/null",
      path, threads, threads, MILLRACE_TORCH_RNN_PEER, c.cell, c.layers, c.hidden, c.batch, steps, threads, seconds);
  std::string answer;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    std::array<char, 4096> buffer;
    while (const size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) answer.append(buffer.data(), size);
    pclose(pipe);
  }
  return json::accept(answer) ? json::parse(answer) : json();
}

int run(int argc, char** argv) {
  CLI::App app{"Training steps per second of recurrent stacks on the CPU, against PyTorch where it is installed"};
  std::vector<std::string> texts{"lstm:5x256:1",  "lstm:5x256:4",   "lstm:5x256:16", "lstm:1x1024:1",
                                 "lstm:1x1024:4", "lstm:1x1024:16", "gru:5x256:4",   "rnn_tanh:5x256:4"};
  std::vector<int> threads{1, 2};
  int64_t steps = 100;
  double seconds = 3;
  bool profile = false, no_torch = false, bf16 = false;
  std::string json_path, libraries;
  app.add_option("--cases", texts, "CELL:LAYERSxUNITS:BATCH, several allowed")->delimiter(',');
  app.add_option("--threads", threads, "thread counts")->delimiter(',');
  app.add_option("--steps", steps, "time steps of a sequence");
  app.add_option("--seconds", seconds, "to measure each case and side");
  app.add_flag("--profile", profile, "where the time goes, layer by layer (ours)");
  app.add_flag("--no-torch", no_torch, "measure our side alone");
  app.add_flag("--bf16", bf16, "measure products in bf16, too");
  app.add_option("--torch-libraries", libraries, "folder in front of PyTorch's libraries, for its BLAS");
  app.add_option("--json", json_path, "write the results there");
  CLI11_PARSE(app, argc, argv);

  json results = json::array();
  fmt::print("{}\n{:<18}{:>9}{:>14}{:>10}{:>12}{:>8}\n", make_cpu_device()->description(), "case", "threads", "millrace/s", "GFLOP/s",
             "torch/s", "ratio");
  std::string version, blas;
  for (const std::string& text : texts) {
    const Case c = parse_case(text);
    const Graph graph(model_of(c, steps));
    const double operations = 6.0 * static_cast<double>(graph.macs().rnn);  // multiply and add, FP, EB and PG
    for (const int count : threads) {
      const double ours = measure(graph, c.batch, count, seconds, profile);
      const json peer = no_torch ? json() : ask_torch(c, steps, count, seconds, libraries);
      json result{
          {"case", text}, {"steps", steps}, {"threads", count}, {"sequences_per_second", ours}, {"gflops", ours * operations / 1e9}};
      std::string theirs_text = "-", ratio_text = "-";
      if (!peer.is_null()) {
        const double theirs = peer.at("sequences_per_second");
        version = peer.at("version");
        blas = peer.at("blas");
        result.update({{"torch_sequences_per_second", theirs}, {"ratio", ours / theirs}, {"torch_version", version}, {"torch_blas", blas}});
        theirs_text = fmt::format("{:.2f}", theirs);
        ratio_text = fmt::format("{:.2f}", ours / theirs);
      }
      fmt::print("{:<18}{:>9}{:>14.2f}{:>10.1f}{:>12}{:>8}\n", text, count, ours, ours * operations / 1e9, theirs_text, ratio_text);
      if (bf16) {
        const double halves = measure(graph, c.batch, count, seconds, profile, CpuPrecision::kBfloat16);
        result.update({{"bf16_sequences_per_second", halves}, {"bf16_ratio", halves / ours}});
        fmt::print("{:<18}{:>9}{:>14.2f}  in bf16, {:.2f} times fp32\n", "", "", halves, halves / ours);
      }
      std::fflush(stdout);
      results.push_back(std::move(result));
    }
  }
  if (!version.empty()) fmt::print("PyTorch {} with {}; newer builds of it are faster.\n", version, blas);
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
