#include "deploy/command/information/doctor_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/cpu/cpu_catalogue.h"
#include "core/graph/graph.h"
#include "core/graph/zoo.h"
#include "deploy/devices/hardware.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/machine_report.h"
#include "gpu/device/gpu_device.h"
#include "gpu/device/gpu_module.h"
#include "gpu/device/gpu_profile.h"

namespace millrace {
namespace {

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

void print_machine(const MachineReport& machine) {
  fmt::print("Machine\n");
  fmt::print("  system           {}\n", machine.system);
  fmt::print("  processor        {}\n", machine.processor);
  fmt::print("  cores            {}\n", machine.cores);
  fmt::print("  memory           {:.1f} GiB, {:.1f} GiB available\n", gib(machine.memory_bytes), gib(machine.memory_available_bytes));
  fmt::print("  instruction set  {}, as oneDNN {} uses it\n", machine.isa, machine.onednn);
}

void print_findings(const MachineReport& machine) {
  fmt::print("\nFound here\n");
  for (const Finding& finding : machine.findings)
    if (finding.present) fmt::print("  {:<16} {}\n", finding.name, finding.detail.empty() ? "present" : finding.detail);
  const bool all = std::all_of(machine.findings.begin(), machine.findings.end(), [](const Finding& finding) { return finding.present; });
  if (all) return;
  fmt::print("\nMissing                                                                     comes with\n");
  for (const Finding& finding : machine.findings)
    if (!finding.present)
      fmt::print("  {:<16} {:<56} {}\n", finding.name, finding.enables,
                 finding.package.empty() ? fmt::format("({})", finding.detail) : finding.package);
  const std::vector<std::string> packages = machine.packages_to_install();
  if (!packages.empty()) fmt::print("\n  apt-get install {}\n", fmt::join(packages, " "));
}

void print_build() {
  fmt::print("\nBuild: Millrace {}, {}, {} {}{}{}\n", kVersion, kBuildType, kCompiler, kCompilerFlags,
             kSanitizers.empty() ? "" : ", sanitizers ", kSanitizers);
  fmt::print("Found when it was configured\n");
  for (const BuildPart& part : kBuildParts)
    if (!part.version.empty()) fmt::print("  {:<16} {:<12} {}\n", part.name, part.version, part.purpose);
  for (const BuildPart& part : kBuildParts)
    if (part.version.empty()) fmt::print("  {:<16} {:<12} {:<43} {}\n", part.name, "-", part.purpose, part.package);
}

void print_shares(const char* what, const PhaseEfficiency& shares) {
  fmt::print("  {:<16} {:.0f}% of it forward, {:.0f}% error back, {:.0f}% parameter gradient\n", what, 100 * shares.forward,
             100 * shares.error_back, 100 * shares.parameter_gradient);
}

void print_profile(const CpuProfile& profile) {
  fmt::print("\nMeasured just now, one thread\n");
  fmt::print("  multiply-adds    {:.1f} G/s at best\n", profile.macs_per_second / 1e9);
  print_shares("convolutions", profile.convolution);
  for (const MeasuredConvolution& c : profile.convolutions)
    print_shares(fmt::format("{}-{} {}x{} at {}", c.in_channels, c.out_channels, c.height, c.width, c.micro_batch).c_str(), c.efficiency);
  print_shares("dense", profile.dense);
  fmt::print("  memory           {:.1f} GB/s, {:.1f} GB free\n", profile.bytes_per_second / 1e9, profile.memory_bytes / 1e9);
}

// The first GPU, or why there is none.
struct MeasuredGpu {
  std::optional<GpuProfile> profile;
  std::string name;
  std::string reason;
};

MeasuredGpu measure_gpu() {
  const GpuCount gpus = count_gpus();
  if (gpus.count == 0) return {std::nullopt, "", gpus.reason};
  try {
    auto engine = open_gpu_engine(0);
    const std::string name = engine->facts().name;
    const auto memory = static_cast<double>(engine->memory().free);
    const std::unique_ptr<Device> device = make_gpu_device(std::move(engine));
    return {measure_gpu_profile(*device, name, memory), name, ""};
  } catch (const Error& error) {
    return {std::nullopt, "", error.what()};
  }
}

CatalogueDevice catalogue_device_of(const MeasuredGpu& gpu) {
  for (const CatalogueDevice& device : shipped_catalogue().devices)
    if (hardware_of(device) == Hardware::kGpu && gpu.name.find(device.name) != std::string::npos)
      return measured_device(*gpu.profile, device);
  CatalogueDevice unknown;
  unknown.name = gpu.name;
  unknown.short_names = {"gpu"};
  unknown.kind = name_of(Hardware::kGpu);
  unknown.summary = gpu.name;
  return measured_device(*gpu.profile, unknown);
}

void print_gpu(const MeasuredGpu& gpu) {
  if (!gpu.profile) {
    fmt::print("  GPU              not measured ({}); plans take the catalogue's figures\n", gpu.reason);
    return;
  }
  const GpuProfile& p = *gpu.profile;
  fmt::print("  {}\n", gpu.name);
  fmt::print("  multiply-adds    {:.1f} T/s at best, {}\n", p.macs_per_second / 1e12, p.precision);
  print_shares("convolutions", {p.convolution_forward, p.convolution_error_back, p.convolution_parameter_gradient});
  fmt::print("  dense            {:.0f}% of it\n", 100 * p.dense);
  fmt::print("  memory           {:.0f} GB/s, {:.1f} GB free; {:.1f} GB/s up, {:.1f} GB/s down\n", p.bytes_per_second / 1e9,
             p.memory_bytes / 1e9, p.upload_bytes_per_second / 1e9, p.download_bytes_per_second / 1e9);
  fmt::print("  launch           {:.1f} us from one piece of work to the next\n", p.launch_seconds * 1e6);
}

nlohmann::ordered_json json_of(const PhaseEfficiency& shares) {
  return {{"forward", shares.forward}, {"error_back", shares.error_back}, {"parameter_gradient", shares.parameter_gradient}};
}

nlohmann::ordered_json json_of(const std::vector<MeasuredConvolution>& convolutions) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const MeasuredConvolution& c : convolutions)
    all.push_back({{"in_channels", c.in_channels},
                   {"out_channels", c.out_channels},
                   {"height", c.height},
                   {"width", c.width},
                   {"kernel", c.kernel},
                   {"stride", c.stride},
                   {"micro_batch", c.micro_batch},
                   {"shares", json_of(c.efficiency)}});
  return all;
}

nlohmann::ordered_json json_of(const CpuProfile& profile) {
  return {{"threads", profile.threads},
          {"macs_per_second", profile.macs_per_second},
          {"bytes_per_second", profile.bytes_per_second},
          {"memory_bytes", profile.memory_bytes},
          {"convolution", json_of(profile.convolution)},
          {"dense", json_of(profile.dense)},
          {"convolutions", json_of(profile.convolutions)},
          {"origin", "measured on " + profile.measured_on}};
}

nlohmann::ordered_json json_of(const MeasuredGpu& gpu) {
  if (!gpu.profile) return {{"present", false}, {"reason", gpu.reason}};
  const GpuProfile& p = *gpu.profile;
  return {{"present", true},
          {"precision", p.precision},
          {"macs_per_second", p.macs_per_second},
          {"bytes_per_second", p.bytes_per_second},
          {"memory_bytes", p.memory_bytes},
          {"upload_bytes_per_second", p.upload_bytes_per_second},
          {"download_bytes_per_second", p.download_bytes_per_second},
          {"launch_seconds", p.launch_seconds},
          {"convolution", json_of(PhaseEfficiency{p.convolution_forward, p.convolution_error_back, p.convolution_parameter_gradient})},
          {"dense", p.dense},
          {"origin", "measured on " + p.measured_on}};
}

nlohmann::ordered_json json_of(const MachineReport& machine) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const Finding& finding : machine.findings)
    findings.push_back({{"name", finding.name},
                        {"present", finding.present},
                        {"detail", finding.detail},
                        {"enables", finding.enables},
                        {"package", finding.package}});
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const BuildPart& part : kBuildParts)
    parts.push_back({{"name", part.name},
                     {"found", !part.version.empty()},
                     {"version", part.version},
                     {"enables", part.purpose},
                     {"package", part.package}});
  return {{"version", kVersion},
          {"system", machine.system},
          {"processor", machine.processor},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"memory_available_bytes", machine.memory_available_bytes},
          {"isa", machine.isa},
          {"bf16", machine.bf16},
          {"onednn", machine.onednn},
          {"findings", std::move(findings)},
          {"install", machine.packages_to_install()},
          {"build",
           {{"type", kBuildType},
            {"compiler", kCompiler},
            {"flags", kCompilerFlags},
            {"sanitizers", kSanitizers},
            {"parts", std::move(parts)}}}};
}

}  // namespace

int doctor(const DoctorOptions& options) {
  if (!options.catalogue_out.empty() && !options.measure)
    fail(ErrorCode::kUsage, "--catalogue-out has no effect without --measure, which finds what it writes; add it");
  if (!options.model.empty() && !options.measure)
    fail(ErrorCode::kUsage, "--model has no effect without --measure, which measures its convolutions; add it");
  std::optional<Graph> model;
  if (!options.model.empty()) model.emplace(find_model(options.model));
  const MachineReport machine = inspect_machine();
  std::optional<CpuProfile> profile;
  MeasuredGpu gpu;
  if (options.measure) {
    gpu = measure_gpu();
    profile = measure_cpu_profile();
    if (!machine.processor.empty()) profile->measured_on = fmt::format("{} ({})", machine.processor, machine.isa);
    for (const int64_t micro_batch : options.micro_batches)
      if (model) measure_convolutions(*profile, *model, micro_batch);
  }
  if (!options.catalogue_out.empty()) {
    Catalogue found{{catalogue_device_of(*profile)}};
    if (gpu.profile) found.devices.push_back(catalogue_device_of(gpu));
    save(found, options.catalogue_out);
  }
  if (options.json) {
    nlohmann::ordered_json report = json_of(machine);
    if (profile) report["measured"] = json_of(*profile);
    if (profile) report["measured_gpu"] = json_of(gpu);
    fmt::print("{}\n", report.dump(2));
    return 0;
  }
  print_machine(machine);
  if (profile) print_profile(*profile);
  if (profile) print_gpu(gpu);
  if (!options.catalogue_out.empty()) fmt::print("  written to       {0}; use it with --catalogue {0}\n", options.catalogue_out);
  print_findings(machine);
  print_build();
  return 0;
}

}  // namespace millrace
