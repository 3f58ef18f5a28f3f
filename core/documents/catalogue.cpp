#include "core/documents/catalogue.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "catalogue.pb.h"
#include "core/base/files.h"
#include "core/documents/catalogue_fields.h"

namespace millrace {
namespace {

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

bool has_short_name(const CatalogueDevice& device, std::string_view name) {
  return std::any_of(device.short_names.begin(), device.short_names.end(), [&](const std::string& own) { return same_word(own, name); });
}

}  // namespace

const CatalogueValue* CatalogueDevice::entry(std::string_view wanted) const {
  const auto found = std::find_if(values.begin(), values.end(), [&](const CatalogueValue& value) { return value.name == wanted; });
  return found == values.end() ? nullptr : &*found;
}

bool CatalogueDevice::has(std::string_view wanted) const { return entry(wanted) != nullptr; }

double CatalogueDevice::value(std::string_view wanted) const {
  if (const CatalogueValue* found = entry(wanted)) return found->value;
  std::vector<std::string> known;
  for (const CatalogueValue& value : values) known.push_back(value.name);
  fail(ErrorCode::kMalformed, "the catalogue's device \"{}\" ({}) lacks the value \"{}\", which a device of kind {} needs{}",
       short_names.empty() ? name : short_names.front(), name, wanted, kind, suggestion(wanted, known));
}

double CatalogueDevice::value_or(std::string_view wanted, double otherwise) const {
  const CatalogueValue* found = entry(wanted);
  return found == nullptr ? otherwise : found->value;
}

const CatalogueDevice& Catalogue::find(std::string_view name) const {
  const CatalogueDevice* by_name = nullptr;
  std::vector<std::string> sharing;
  for (const CatalogueDevice& device : devices) {
    if (has_short_name(device, name)) return device;
    if (!same_word(device.name, name)) continue;
    by_name = &device;
    sharing.push_back(device.short_names.empty() ? device.name : device.short_names.front());
  }
  if (sharing.size() == 1) return *by_name;
  if (!sharing.empty()) fail(ErrorCode::kUsage, "\"{}\" is on several boards; say which: {}", name, fmt::join(sharing, ", "));
  std::vector<std::string> known = short_names();
  for (const CatalogueDevice& device : devices) known.push_back(device.name);
  const std::string nearest = suggestion(name, known);
  fail(ErrorCode::kUsage, "no device \"{}\" in the catalogue{}", name,
       nearest.starts_with("; did you") ? nearest : suggestion(name, short_names()));
}

std::vector<std::string> Catalogue::short_names() const {
  std::vector<std::string> names;
  for (const CatalogueDevice& device : devices) names.insert(names.end(), device.short_names.begin(), device.short_names.end());
  return names;
}

void Catalogue::merge(Catalogue other) {
  const auto taken_over = [&](const std::string& name) {
    return std::any_of(other.devices.begin(), other.devices.end(),
                       [&](const CatalogueDevice& device) { return has_short_name(device, name); });
  };
  for (CatalogueDevice& device : devices) std::erase_if(device.short_names, taken_over);
  std::erase_if(devices, [](const CatalogueDevice& device) { return device.short_names.empty(); });
  std::move(other.devices.begin(), other.devices.end(), std::back_inserter(devices));
}

Catalogue parse_catalogue(std::string_view text, std::string_view origin) {
  const text::Path document(origin, ErrorCode::kMalformed);
  documents::Catalogue message;
  text::parse_text(text, document, text::catalogue_steps(), message);
  Catalogue catalogue;
  text::Codec<Catalogue>::read(message, catalogue, document);
  text::Codec<Catalogue>::check(catalogue, document);
  return catalogue;
}

std::string text_of(const Catalogue& catalogue) {
  documents::Catalogue message;
  message.set_version(text::current_version(text::catalogue_steps()));
  text::Codec<Catalogue>::write(catalogue, message);
  return text::print_text(message);
}

Catalogue load_catalogue(const std::filesystem::path& path) { return parse_catalogue(text::read_document(path), path.string()); }

void save(const Catalogue& catalogue, const std::filesystem::path& path) { write_atomically(path, text_of(catalogue)); }

}  // namespace millrace
