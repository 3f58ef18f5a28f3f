// The only place that knows every kind of device: from a catalogue's short name to the device that computes it here.
//
//   std::unique_ptr<Device> device = open_device("cpu", {.threads = 2});
//
// A kind is added by one explicit entry in device_registry.cpp. Fails with kUsage (nearest name suggested) or
// kUnavailable, saying what is missing.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/device/device.h"
#include "core/documents/plan.h"

namespace millrace {

// Whether devices that the catalogue knows as GPUs are computed by GPUs: where there are some, always, never.
enum class GpuUse { kAuto, kRequired, kOff };

struct DeviceOptions {
  int threads = 1;                // of a processor
  std::string kernel_table = {};  // a file written by `millrace tune`; empty: the shipped one
  const Plan* plan = nullptr;     // of the ring that it is device `index` of; kinds that follow the plan need it
  int64_t index = 0;
  GpuUse gpus = GpuUse::kAuto;
  std::string gpu_precision = {};   // fp32, tf32, fp16, bf16; empty: fp32
  std::string gpu_algorithms = {};  // a file of measured convolution algorithms, made where it is not there; empty: not measured
};

// More threads than processors only wait for each other, which is said.
void warn_of_threads(int64_t threads);
// Whether this build can compute on a device of this kind.
bool can_compute_on(std::string_view kind);
std::unique_ptr<Device> open_device(std::string_view kind, const DeviceOptions& options);
// Whether it computes for a plan's device alone, and may have something to prepare for it.
bool needs_plan(std::string_view kind);
// Brings about whatever takes long before the devices of options.plan can be opened, beginning with device options.index.
void prepare_devices(std::string_view kind, const DeviceOptions& options);
// What a run's numbers depend on besides plan and seed, for its fingerprint.
std::map<std::string, std::string> fingerprint_of(std::string_view kind, Device& device, const DeviceOptions& options);

}  // namespace millrace
