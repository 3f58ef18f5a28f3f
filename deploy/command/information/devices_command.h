// `millrace devices [NAME] [--catalogue FILE] [--json]`: what is known about boards and processors, on standard output.
//
//   const Catalogue catalogue = catalogue_with(files);
//   return name.empty() ? list_devices(catalogue, json) : show_device(catalogue, name, json);
//
// Tables are for people, JSON for scripts; the JSON's keys are a contract:
//   list   devices[{name, short_names[], kind, summary, values[{name, value, unit, origin, note}]}]
//   show   name, short_names[], kind, summary, values[{name, value, unit, origin, note}]
// Both return the exit status 0; an unknown name is an Error.
#pragma once

#include <string>

#include "core/documents/catalogue.h"

namespace millrace {

int list_devices(const Catalogue& catalogue, bool json);
int show_device(const Catalogue& catalogue, const std::string& name, bool json);

// A value as people read it: "200 MHz", "8.59 GB", "3,600".
std::string text_of(const CatalogueValue& value);

}  // namespace millrace
