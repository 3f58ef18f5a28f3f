// Every device that Millrace knows by name: the shipped catalogues together, and the user's files over them.
//
//   const CatalogueDevice& board = shipped_catalogue().find("vc709");
//   const Catalogue catalogue = catalogue_with(flags.catalogues);        // --catalogue FILE, any number of times
//
// A kind is added by one explicit entry in catalogue_registry.cpp. Files come in order: a later one takes over the short
// names it gives. Fails as load_catalogue does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/documents/catalogue.h"
#include "deploy/devices/hardware.h"

namespace millrace {

// The device cpu has the figures for this processor's instruction set, or for the one that is named as kernel tables name it.
const Catalogue& shipped_catalogue();
const Catalogue& shipped_catalogue_for(const std::string& instruction_set);
// Nothing where the shipped catalogue does not know the name.
std::optional<Hardware> shipped_hardware(std::string_view name);
Catalogue catalogue_with(std::span<const std::string> files);

}  // namespace millrace
