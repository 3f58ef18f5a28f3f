// A kind of device that this build can compute on: all that the rest of Millrace knows about it, in one value.
//
//   std::vector<DeviceKind> cpu_kinds() {
//     return {{.name = "cpu", .planned_as = "cpu", .open = [](const DeviceOptions& options) { return make_cpu_device(...); }}};
//   }
//
// Each file beside this one makes the kinds of one engine; device_registry.cpp lists those files, and nothing else compares names. What
// a kind costs says the catalogue's device that it is planned as (cost_models.h).
// Functions borrow their options for the call. They fail with kUsage on options that the kind cannot heed, with kUnavailable naming
// what is missing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/device.h"
#include "core/documents/plan.h"
#include "deploy/devices/hardware.h"

namespace millrace {

// Whether devices that the catalogue knows as GPUs are computed by GPUs: where there are some, always, never.
enum class GpuUse { kAuto, kRequired, kOff };

struct DeviceOptions {
  int threads = 1;                // of a processor
  std::string kernel_table = {};  // a file written by `millrace tune`; empty: the shipped one
  const Plan* plan = nullptr;     // of the ring that it is device `index` of; kinds that follow the plan need it
  int64_t index = 0;
  std::string cpu_precision = {};  // of products of the CPU engine: fp32, bf16; empty: fp32
  GpuUse gpus = GpuUse::kAuto;
  std::string gpu_precision = {};   // fp32, tf32, fp16, bf16; empty: fp32
  std::string gpu_algorithms = {};  // a file of measured convolution algorithms, made where it is not there; empty: not measured
  bool gpu_graphs = false;          // launch together what a GPU has launched before
};

using Fingerprint = std::map<std::string, std::string>;

struct DeviceKind {
  std::string name;        // what --cluster takes
  std::string planned_as;  // the catalogue's device whose cost model plans it, unless the catalogue knows the kind's own name
  std::optional<Arithmetic> arithmetic = std::nullopt;  // of its plans; none: that of the device it is planned as
  std::function<std::unique_ptr<Device>(const DeviceOptions&)> open;
  // What takes long, before anybody waits for anybody. A kind that has it computes for one device of a plan alone.
  std::function<void(const DeviceOptions&)> prepare = {};
  // Adds what this kind's numbers depend on.
  std::function<void(const DeviceOptions&, Fingerprint&)> fingerprint = {};
  // Whether it computes, here and with these options, for the catalogue's devices of this hardware (none: of names that it
  // does not know) that have no kind of their own. The first of the list that does is taken.
  std::function<bool(std::optional<Hardware> hardware, const DeviceOptions&)> stands_in = {};
  // What a user is told then: "GPUs in fp32".
  std::function<std::string(const DeviceOptions&)> as_stand_in = {};
  bool takes_cpu_precision = false;  // it heeds DeviceOptions::cpu_precision
  bool has_formats = false;          // it computes in 16 bits, in formats that a run may choose
  bool on_calling_thread = false;    // it computes on the thread that calls it, whose processor time is what it takes
};

// Fails with kUsage where options speak of threads or kernels of a processor, and `what` has none to choose.
void refuse_cpu_options(std::string_view what, const DeviceOptions& options);
// Ranks of one host take its boards and GPUs in turn; a rank with several devices takes as many. `opened`: so many before.
uint32_t turn_on_host(uint32_t opened);

}  // namespace millrace
