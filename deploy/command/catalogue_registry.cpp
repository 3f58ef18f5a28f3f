#include "deploy/command/catalogue_registry.h"

#include <algorithm>

#include "core/cpu/cpu_catalogue.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "gpu/catalogue/gpu_catalogue.h"

namespace millrace {

const Catalogue& shipped_catalogue() {
  static const Catalogue shipped = [] {
    Catalogue all = parse_catalogue(fpga_catalogue_text(), "fpga/catalogue");
    all.merge(parse_catalogue(gpu_catalogue_text(), "gpu/catalogue"));
    all.merge(parse_catalogue(cpu_catalogue_text(), "core/cpu"));
    return all;
  }();
  return shipped;
}

std::string catalogue_kind(std::string_view name) {
  for (const CatalogueDevice& device : shipped_catalogue().devices)
    if (device.name == name || std::ranges::find(device.short_names, name) != device.short_names.end()) return device.kind;
  return "";
}

Catalogue catalogue_with(std::span<const std::string> files) {
  Catalogue catalogue = shipped_catalogue();
  for (const std::string& file : files) catalogue.merge(load_catalogue(file));
  return catalogue;
}

}  // namespace millrace
