// Everything that needs a real GPU, as one plain program: no test framework, no MPI, so that it runs wherever there is a driver.
//
//   millrace-gpu-check [--json]        exit status 0 all well, 1 something is wrong, 77 no GPU
//
// With --json the report goes to standard output when all is over, and each check's line to standard error when it is.
// The suite of tests/gpu/device over CUDA, each precision, the same bits twice, recurrent layers whole, in chunks of time and too large for
// the chip, rings with one GPU among processors; then how recurrent layers of some sizes run, and what the GPU can do, measured.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu/device/gpu_device.h"
#include "gpu/device/gpu_module.h"
#include "gpu/device/gpu_profile.h"
#include "gpu/device/replaying_engine.h"
#include "tests/gpu/device/device_cases.h"
#include "tests/gpu/device/ring_cases.h"

namespace {

using namespace millrace;

constexpr int kSkipped = 77;

std::unique_ptr<Device> open_gpu(GpuOptions options = {}) { return make_gpu_device(open_gpu_engine(0), options); }

gpu::ReplayCounts replays;
std::unique_ptr<Device> open_with_graphs() { return make_gpu_device(std::make_unique<gpu::ReplayingEngine>(open_gpu_engine(0), &replays)); }

bool multiplies(const KernelSpec& spec) {
  return !spec.finish && !spec.activation &&
         (std::holds_alternative<Conv2d>(spec.operation) || std::holds_alternative<Dense>(spec.operation));
}

// One recurrent layer against a processor, which must run as it is meant to: all steps at once, or step by step.
std::string layer_matches(const Recurrent& cell, int64_t inputs, int64_t steps, int64_t samples, bool at_once,
                          gpu::Precision precision = gpu::Precision::kFloat32, double tolerance = 1e-4) {
  using namespace millrace::testing;
  const OperationCase c = case_of(cell, {inputs, steps, 1}, samples);
  const CaseData data = data_of(c);
  const auto device = open_gpu({.precision = precision});
  const std::string way = device->make_kernel(c.spec)->implementation();
  if ((way.find("step by step") == std::string::npos) != at_once) return "runs otherwise than it is meant to: " + way;
  return difference_of(run_case(*device, c, data), run_case(*make_cpu_device(), c, data), tolerance);
}

// What runs a layer, and why: persistent kernels or single steps.
nlohmann::ordered_json ways_of_recurrences() {
  nlohmann::ordered_json ways;
  const auto device = open_gpu();
  for (const auto cell : {CellKind::kLstm, CellKind::kGru, CellKind::kVanillaTanh})
    for (const int64_t hidden : {64, 256, 1024, 2048, 4096}) {
      const Operation layer = Recurrent{.cell = cell, .hidden = hidden};
      const auto kernel = device->make_kernel(millrace::testing::case_of(layer, {hidden, 16, 1}, 16).spec);
      ways.push_back({{"layer", name_of(layer)}, {"hidden", hidden}, {"samples", 16}, {"way", kernel->implementation()}});
    }
  return ways;
}

void add_measurements(nlohmann::ordered_json& report) {
  report["recurrent"] = ways_of_recurrences();
  for (const auto precision : {gpu::Precision::kFloat32, gpu::Precision::kTensorFloat32, gpu::Precision::kBfloat16}) {
    const auto device = open_gpu({.precision = precision});
    const GpuProfile p = measure_gpu_profile(*device, device->description(), 0);
    report["measured"].push_back({{"precision", name_of(precision)},
                                  {"macs_per_second", p.macs_per_second},
                                  {"convolution_forward", p.convolution_forward},
                                  {"convolution_error_back", p.convolution_error_back},
                                  {"convolution_parameter_gradient", p.convolution_parameter_gradient},
                                  {"dense", p.dense},
                                  {"bytes_per_second", p.bytes_per_second},
                                  {"upload_bytes_per_second", p.upload_bytes_per_second},
                                  {"download_bytes_per_second", p.download_bytes_per_second},
                                  {"launch_seconds", p.launch_seconds}});
  }
}

struct Check {
  std::string name;
  std::function<std::string()> run;
};

std::vector<Check> all_checks() {
  using namespace millrace::testing;
  const CaseLimits small{.per_kind = 60, .seed = 21};
  const CaseLimits large{.per_kind = 15, .most_channels = 70, .most_extent = 20, .most_batch = 6, .seed = 22};
  const auto narrow = [large](gpu::Precision precision, double tolerance) {
    return [=] { return operations_match(*open_gpu({.precision = precision}), large, tolerance, multiplies); };
  };
  std::vector<Check> checks = {
      {"small operations in fp32", [small] { return operations_match(*open_gpu(), small, 1e-5); }},
      {"large operations in fp32", [large] { return operations_match(*open_gpu(), large, 1e-4); }},
      {"products in tf32", narrow(gpu::Precision::kTensorFloat32, 5e-3)},
      {"products in fp16", narrow(gpu::Precision::kFloat16, 3e-3)},
      {"products in bf16", narrow(gpu::Precision::kBfloat16, 2e-2)},
      {"the same bits twice", [large] { return operations_repeat(*open_gpu(), *open_gpu(), large); }},
      {"measured algorithms", [large] { return operations_match(*open_gpu({.measure_algorithms = true}), large, 1e-4, multiplies); }},
      {"updates and norms", [] { return updates_match(*open_gpu(), 1e-5); }},
      {"recurrent layers in chunks of time", [] { return chunks_match(*open_gpu(), 24, 1e-5); }},
      {"larger recurrent layers in chunks of time", [] { return chunks_match(*open_gpu(), 200, 1e-4); }},
      {"a persistent LSTM", [] { return layer_matches({.hidden = 1024}, 256, 20, 4, true); }},
      {"a persistent LSTM of both directions", [] { return layer_matches({.hidden = 256, .bidirectional = true}, 64, 20, 8, true); }},
      {"a persistent GRU", [] { return layer_matches({.cell = CellKind::kGru, .hidden = 512, .reset_after = true}, 128, 20, 4, true); }},
      {"a persistent LSTM in bf16", [] { return layer_matches({.hidden = 1024}, 256, 20, 4, true, gpu::Precision::kBfloat16, 3e-2); }},
      {"a persistent LSTM in fp16", [] { return layer_matches({.hidden = 1024}, 256, 20, 4, true, gpu::Precision::kFloat16, 4e-3); }},
      {"a persistent GRU in bf16",
       [] {
         return layer_matches({.cell = CellKind::kGru, .hidden = 512, .reset_after = true}, 128, 20, 4, true, gpu::Precision::kBfloat16,
                              3e-2);
       }},
      {"a projected LSTM in bf16",
       [] { return layer_matches({.hidden = 512, .projection = 128}, 128, 20, 4, true, gpu::Precision::kBfloat16, 3e-2); }},
      {"recurrent layers in chunks of time in bf16",
       [] { return chunks_match(*open_gpu({.precision = gpu::Precision::kBfloat16}), 24, 3e-2); }},
      {"an LSTM too large for the chip", [] { return layer_matches({.hidden = 2048}, 64, 4, 2, false); }},
      {"copies in small pieces", [] { return moves_match(*open_gpu({.staging_bytes = 256})); }},
      {"out of memory", [] {
         const auto device = open_gpu();
         try {
           device->make_tensor({{int64_t{1} << 30, 1, 1}, 1024});
         } catch (const Error& error) {
           return std::string(error.what()).find("of GPU memory wanted") == std::string::npos ? std::string(error.what()) : std::string();
         }
         return std::string("4 TiB were there");
       }}};
  for (int64_t gpu = 0; gpu < 3; ++gpu)
    checks.push_back({fmt::format("a ring with the GPU as device {}", gpu), [gpu] {
                        return ring_matches({.gpu = gpu,
                                             .open_gpu = [] { return open_gpu(); },
                                             .alignment = gpu == 1 ? Alignment::kFpdeep : Alignment::kFlush,
                                             .cuts = static_cast<uint64_t>(gpu) + 4},
                                            1e-3);
                      }});
  checks.push_back({"a ring with the GPU's launches in graphs", [] {
                      const RingCase plain{.open_gpu = [] { return open_gpu(); }, .steps = 20},
                          graphs{.open_gpu = open_with_graphs, .steps = 20};
                      const std::string wrong = same_bits(trained_on_ring(plain, true), trained_on_ring(graphs, true));
                      return !wrong.empty() || replays.replayed > 0 ? wrong
                                                                    : fmt::format("nothing replayed, {} rows refused", replays.refused);
                    }});
  checks.push_back({"a ring of recurrent layers that makes again what they keep", [] {
                      RingCase c{.gpu = 1, .open_gpu = [] { return open_gpu(); }, .steps = 2, .network = deep_stack(24)};
                      const RingWeights kept = trained_on_ring(c, true);
                      c.recompute = true;
                      return same_bits(kept, trained_on_ring(c, true));
                    }});
  for (const int64_t chunks : {1, 3})
    for (int64_t gpu = 0; gpu < 3; ++gpu)
      checks.push_back({fmt::format("a ring of recurrent layers with the GPU as device {}, time in {}", gpu, chunks), [gpu, chunks] {
                          return ring_matches({.gpu = gpu,
                                               .open_gpu = [] { return open_gpu(); },
                                               .alignment = gpu == 1 ? Alignment::kFpdeep : Alignment::kFlush,
                                               .network = recurrent_stack(40),
                                               .chunks = chunks},
                                              1e-3);
                        }});
  for (const int64_t layers : {24, 108})
    checks.push_back({fmt::format("a ring whose GPU has all but two of {} recurrent layers", layers), [layers] {
                        return ring_matches({.gpu = 2, .open_gpu = [] { return open_gpu(); }, .steps = 1, .network = deep_stack(layers)},
                                            1e-3);
                      }});
  return checks;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  if (argc > 2 || (argc == 2 && !json)) {
    fmt::print(stderr, "usage: {} [--json]\n", argv[0]);
    return 2;
  }
  // Standard output is the report's alone. A check that never ends or ends the program must leave what came before it.
  std::FILE* const told = json ? stderr : stdout;
  const GpuCount gpus = count_gpus();
  if (gpus.count == 0) {
    fmt::print(told, "skipped: needs a GPU ({})\n", gpus.reason);
    return kSkipped;
  }
  nlohmann::ordered_json report = {{"device", ""}, {"checks", nlohmann::ordered_json::array()}};
  int failures = 0;
  const auto tell = [&](const std::string& name, const std::string& wrong, double seconds) {
    failures += wrong.empty() ? 0 : 1;
    report["checks"].push_back({{"name", name}, {"passed", wrong.empty()}, {"wrong", wrong}, {"seconds", seconds}});
    fmt::print(told, "{} {} ({:.1f} s){}{}\n", wrong.empty() ? "ok  " : "FAIL", name, seconds, wrong.empty() ? "" : ": ", wrong);
    std::fflush(told);
  };
  try {
    report["device"] = open_gpu()->description();
  } catch (const std::exception& error) {
    fmt::print(told, "{}\n", error.what());
    return 1;
  }
  for (const Check& check : all_checks()) {
    const auto begin = std::chrono::steady_clock::now();
    std::string wrong;
    try {
      wrong = check.run();
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    tell(check.name, wrong, seconds);
  }
  try {
    add_measurements(report);
  } catch (const std::exception& error) {
    tell("ways of recurrent layers and what the GPU can do", error.what(), 0);
  }
  if (json)
    fmt::print("{}\n", report.dump(2));
  else
    fmt::print("{}\n{}\n", report["recurrent"].dump(2), report["measured"].dump(2));
  return failures == 0 ? 0 : 1;
}
