// Rules between the fields of a catalogue.
#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_map>

#include "core/documents/catalogue_fields.h"

namespace millrace::text {
namespace {

constexpr std::array<std::string_view, 5> kOrigins = {"catalogue", "paper", "fitted", "measured", "projected"};

std::string without_capitals(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// "boardx2": on a command line that is two boards.
bool ends_like_a_count(std::string_view name) {
  const size_t x = name.find_last_not_of("0123456789");
  return x != std::string_view::npos && x > 0 && x + 1 < name.size() && name[x] == 'x';
}

}  // namespace

void Fields<CatalogueValue>::check(const CatalogueValue& value, const Path& where) {
  if (std::find(kOrigins.begin(), kOrigins.end(), value.origin) != kOrigins.end()) return;
  Path(where, "origin").fail("\"{}\" is not where a value can come from; it is one of {}", value.origin, fmt::join(kOrigins, ", "));
}

void Fields<CatalogueDevice>::check(const CatalogueDevice& device, const Path& where) {
  if (device.short_names.empty()) Path(where, "short_names").fail("none given; --cluster needs a name for the device");
  for (size_t i = 0; i < device.short_names.size(); ++i)
    if (ends_like_a_count(device.short_names[i]))
      Path(where, "short_names", i)
          .fail("\"{}\" would be taken for several \"{}\"; do not end it in x and a number", device.short_names[i],
                device.short_names[i].substr(0, device.short_names[i].rfind('x')));
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < device.values.size(); ++i) {
    const auto [earlier, added] = seen.emplace(device.values[i].name, i);
    if (!added) Path(Path(where, "value", i), "name").fail("\"{}\" is already given by value[{}]", device.values[i].name, earlier->second);
  }
}

void Fields<Catalogue>::check(const Catalogue& catalogue, const Path& where) {
  std::unordered_map<std::string, size_t> seen;
  for (size_t i = 0; i < catalogue.devices.size(); ++i)
    for (size_t k = 0; k < catalogue.devices[i].short_names.size(); ++k) {
      const std::string& name = catalogue.devices[i].short_names[k];
      const auto [earlier, added] = seen.emplace(without_capitals(name), i);
      if (!added)
        Path(Path(where, "devices", i), "short_names", k)
            .fail("\"{}\" is already a short name of devices[{}]; short names are unique, whatever their capitals", name, earlier->second);
    }
}

}  // namespace millrace::text
