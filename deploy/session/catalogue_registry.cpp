#include "deploy/session/catalogue_registry.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "core/cpu/cpu_catalogue.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "gpu/catalogue/gpu_catalogue.h"

namespace millrace {

const Catalogue& shipped_catalogue() {
  static const Catalogue& shipped = shipped_catalogue_for(std::string(cpu_instruction_set()));
  return shipped;
}

const Catalogue& shipped_catalogue_for(const std::string& instruction_set) {
  static std::mutex mutex;
  static std::map<std::string, Catalogue> known;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace(instruction_set);
  if (is_new) {
    place->second = parse_catalogue(fpga_catalogue_text(), "fpga/catalogue");
    place->second.merge(parse_catalogue(gpu_catalogue_text(), "gpu/catalogue"));
    place->second.merge(parse_catalogue(cpu_catalogue_text(instruction_set), "core/cpu"));
  }
  return place->second;
}

std::optional<Hardware> shipped_hardware(std::string_view name) {
  for (const CatalogueDevice& device : shipped_catalogue().devices)
    if (device.name == name || std::ranges::find(device.short_names, name) != device.short_names.end()) return hardware_of(device);
  return std::nullopt;
}

Catalogue catalogue_with(std::span<const std::string> files) {
  Catalogue catalogue = shipped_catalogue();
  for (const std::string& file : files) catalogue.merge(load_catalogue(file));
  return catalogue;
}

}  // namespace millrace
