#include "core/device/catalogue_reader.h"

#include <string>

#include "core/base/error.h"

namespace millrace {

double CatalogueReader::positive(std::string_view name) {
  constexpr double kLeast = 1e-15;
  constexpr double kMost = 1e24;  // products of two stay finite
  const double value = device_.value(name);
  if (!(value >= kLeast && value <= kMost))
    fail(ErrorCode::kMalformed, "the catalogue's device \"{}\": {} is {}; it must be from {} to {}", device_.name, name, value, kLeast,
         kMost);
  const CatalogueValue& entry = *device_.entry(name);
  // A measurement counts for the machine it was taken on.
  const bool told = entry.origin == "measured" && !entry.note.empty();
  constants_.push_back({std::string(name), value, told ? entry.origin + " " + entry.note : entry.origin});
  return value;
}

double CatalogueReader::positive_or(std::string_view name, double otherwise) { return device_.has(name) ? positive(name) : otherwise; }

}  // namespace millrace
