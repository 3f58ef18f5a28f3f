#include <cstddef>
#include <cstdint>

#include "core/documents/catalogue.h"
#include "tests/fuzz/documents/accepted.h"

namespace {

// Whatever a catalogue holds: its devices are found under each of their short names, and it replaces itself as a whole.
void try_finding(std::string_view text) {
  millrace::Catalogue catalogue;
  try {
    catalogue = millrace::parse_catalogue(text, "fuzz");
  } catch (const millrace::Error&) {
    return;
  }
  for (const millrace::CatalogueDevice& device : catalogue.devices)
    for (const std::string& name : device.short_names) MILLRACE_CHECK(&catalogue.find(name) == &device, "{}", name);
  millrace::Catalogue merged = catalogue;
  merged.merge(catalogue);
  MILLRACE_CHECK(merged == catalogue, "{}", text_of(merged));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_finding(text);
  return millrace::fuzz::try_document(text, millrace::parse_catalogue);
}
