// What the catalogue's devices are: boards, GPUs, processors. A catalogue says it in a word; this is the one place that knows the words.
//
//   if (hardware_of(catalogue.find("vc709")) == Hardware::kFpga) ...
//   fmt::format("a device of kind {}", name_of(Hardware::kGpu));                 // "gpu"
//
// Words that are unknown are no error here: a catalogue may name any kind, which fails where a cost model is wanted (cost_models.h).
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "core/documents/catalogue.h"

namespace millrace {

enum class Hardware { kFpga, kGpu, kCpu };
inline constexpr std::array kAllHardware{Hardware::kFpga, Hardware::kGpu, Hardware::kCpu};

std::string_view name_of(Hardware hardware);
std::optional<Hardware> hardware_from(std::string_view word);
inline std::optional<Hardware> hardware_of(const CatalogueDevice& device) { return hardware_from(device.kind); }

}  // namespace millrace
