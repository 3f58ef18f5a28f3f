// Every kind of device that this build can compute on (device_kind.h), by name.
//
//   std::unique_ptr<Device> device = open_device("cpu", {.threads = 2});
//
// A kind is added by a file of its own in this folder, named in device_registry.cpp. Fails with kUsage (nearest name suggested) or
// kUnavailable, saying what is missing.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/device.h"
#include "deploy/devices/device_kind.h"

namespace millrace {

// More threads than processors only wait for each other, which is said.
void warn_of_threads(int64_t threads);
// Whether this build can compute on a device of this kind.
bool can_compute_on(std::string_view kind);
std::vector<std::string> computing_kinds();
const DeviceKind& device_kind(std::string_view name);
// What computes here for the catalogue's devices of some hardware (none: not known) that have no kind of their own.
const DeviceKind& stand_in_for(std::optional<Hardware> hardware, const DeviceOptions& options);
std::unique_ptr<Device> open_device(std::string_view kind, const DeviceOptions& options);
// Whether it computes for a plan's device alone, and may have something to prepare for it.
bool needs_plan(std::string_view kind);
// Brings about whatever takes long before the devices of options.plan can be opened, beginning with device options.index.
void prepare_devices(std::string_view kind, const DeviceOptions& options);
// What a run's numbers depend on besides plan and seed, for its fingerprint.
std::map<std::string, std::string> fingerprint_of(std::string_view kind, Device& device, const DeviceOptions& options);

}  // namespace millrace
