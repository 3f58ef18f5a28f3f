// The device catalogue: what is known about a kind of board or processor, every value with its origin.
//
//   Catalogue catalogue = parse_catalogue(text, "fpga/catalogue/vc709.textproto");
//   const CatalogueDevice& board = catalogue.find("vc709");
//   double luts = board.value("lut");                          // fails naming the device and the value it lacks
//
// A user's file has the same format and may replace a device by giving one with the same short name.
// A device's name is its chip's: several boards may share it, which their short names tell apart.
// Plain values, copied freely. Which values a kind of device needs is settled by its cost model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct CatalogueValue {
  std::string name;  // "dsp", "clock_hz", ...
  double value = 0;
  std::string unit;    // "1", "Hz", "B", "B/s", "Gb/s", "W", ...
  std::string origin;  // "catalogue" (a data sheet), "paper", "fitted", "measured", "projected"
  std::string note;    // which data sheet, which fit
  bool operator==(const CatalogueValue&) const = default;
};

struct CatalogueDevice {
  std::string name;                      // "XC7VX690T"
  std::vector<std::string> short_names;  // what --cluster takes: "vc709"
  std::string kind;                      // "fpga", "gpu", "cpu"
  std::string summary;                   // one line
  std::vector<CatalogueValue> values;
  bool operator==(const CatalogueDevice&) const = default;

  bool has(std::string_view value) const;
  // Fails with kMalformed naming the device and the missing value.
  double value(std::string_view name) const;
  double value_or(std::string_view name, double otherwise) const;
  const CatalogueValue* entry(std::string_view name) const;  // null when absent
};

struct Catalogue {
  std::vector<CatalogueDevice> devices;
  bool operator==(const Catalogue&) const = default;

  // By short name, else by name where only one device has it; capitals ignored. Fails with kUsage, suggesting the nearest.
  const CatalogueDevice& find(std::string_view name) const;
  std::vector<std::string> short_names() const;
  // A device of `other` takes its short names over from earlier ones; an earlier one that has none left goes.
  void merge(Catalogue other);
};

Catalogue parse_catalogue(std::string_view text, std::string_view origin);
std::string text_of(const Catalogue& catalogue);
Catalogue load_catalogue(const std::filesystem::path& path);
void save(const Catalogue& catalogue, const std::filesystem::path& path);

}  // namespace millrace
