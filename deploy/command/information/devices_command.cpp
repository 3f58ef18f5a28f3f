#include "deploy/command/information/devices_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include "deploy/command/line/command.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "deploy/session/catalogue_registry.h"

namespace millrace {
namespace {

Json json_of(const CatalogueDevice& device) {
  Json values = Json::array();
  for (const CatalogueValue& value : device.values)
    values.push_back({{"name", value.name}, {"value", value.value}, {"unit", value.unit}, {"origin", value.origin}, {"note", value.note}});
  return {{"name", device.name},
          {"short_names", device.short_names},
          {"kind", device.kind},
          {"summary", device.summary},
          {"values", std::move(values)}};
}

struct Prefix {
  double factor;
  std::string_view name;
};

// "33.45 T" of 3.345e13, with four digits.
std::string with_prefix(double value, int digits) {
  constexpr std::array<Prefix, 9> kPrefixes = {
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}}};
  for (const Prefix& prefix : kPrefixes)
    if (std::abs(value) >= prefix.factor && std::abs(value) < 1000 * kPrefixes[0].factor)
      return fmt::format("{:.{}g} {}", value / prefix.factor, digits, prefix.name);
  return fmt::format("{:.{}g} ", value, digits);
}

// Multiply-accumulates a second at best, as each kind of device counts them.
std::string peak_of(const CatalogueDevice& device) {
  const auto rate = [](double macs_per_second, std::string_view what) {
    return fmt::format("{} {}", with_prefix(macs_per_second, 3), what);
  };
  if (device.has("dsp") && device.has("dsp_per_mac_16") && device.has("clock_hz"))
    return rate(device.value("dsp") * device.value_or("dsp_engine_share", 1) / device.value("dsp_per_mac_16") * device.value("clock_hz"),
                "16-bit");
  if (device.has("macs_per_second_fp32")) return rate(device.value("macs_per_second_fp32"), "fp32");
  if (device.has("macs_per_second")) return rate(device.value("macs_per_second") * device.value_or("threads", 1), "fp32");
  return "-";
}

// Off the chip, in gigabytes.
std::string memory_of(const CatalogueDevice& device) {
  double bytes = 0;
  for (const char* memory : {"memory_bytes", "dram_bytes", "hbm_bytes"}) bytes += device.value_or(memory, 0);
  return bytes > 0 ? fmt::format("{:.1f}", bytes / 1e9) : "-";
}

std::string link_of(const CatalogueDevice& device) {
  return device.has("link_gbps") ? fmt::format("{:g}", device.value("link_gbps")) : "-";
}

std::string title_of(const CatalogueDevice& device) {
  return fmt::format("{}: {}, {}", fmt::join(device.short_names, ", "), device.name, device.kind);
}

std::string table_of(const CatalogueDevice& device) {
  std::vector<std::string> amounts;
  size_t width = std::string_view("amount").size();
  for (const CatalogueValue& value : device.values) {
    amounts.push_back(text_of(value));
    width = std::max(width, amounts.back().size());
  }
  TextTable table({"value", fmt::format("{:>{}}", "amount", width), "origin", "note"}, 4);
  for (size_t i = 0; i < amounts.size(); ++i)
    table.add({device.values[i].name, fmt::format("{:>{}}", amounts[i], width), device.values[i].origin, device.values[i].note});
  std::string text = title_of(device) + "\n";
  if (!device.summary.empty()) text += device.summary + "\n";
  return text + "\n" + table.text() +
         "\ncatalogue: the maker's data sheet; paper: a publication; fitted: so that a model meets published figures;\n"
         "measured: on such a device; projected: an estimate without one.\n";
}

}  // namespace

std::string text_of(const CatalogueValue& value) {
  constexpr double kExact = 1e15;
  const bool whole = value.value == std::trunc(value.value) && std::abs(value.value) < kExact;
  if (value.unit == "1") {
    if (value.value == 0) return "0";
    if (whole) return value.value < 0 ? "-" + grouped(static_cast<int64_t>(-value.value)) : grouped(static_cast<int64_t>(value.value));
    return fmt::format("{:g}", value.value);
  }
  if (value.unit == "1/s") return with_prefix(value.value, 4) + "/s";
  for (const std::string_view scaled : {"Hz", "B", "B/s", "s"})
    if (value.unit == scaled) return with_prefix(value.value, 4) + value.unit;
  return fmt::format("{:g} {}", value.value, value.unit);
}

int list_devices(const Catalogue& catalogue, bool json) {
  if (json) {
    Json devices = Json::array();
    for (const CatalogueDevice& device : catalogue.devices) devices.push_back(json_of(device));
    write_out(json_text({{"devices", std::move(devices)}}));
    return 0;
  }
  TextTable table({"device", "kind", "what it is", "MACs/s at best", "memory GB", "link Gb/s"}, 3);
  for (const CatalogueDevice& device : catalogue.devices)
    table.add({fmt::format("{}", fmt::join(device.short_names, ", ")), device.kind, device.summary, peak_of(device), memory_of(device),
               link_of(device)});
  write_out(
      table.text() +
      "\nlink: to one neighbour in the ring, one direction. `millrace devices NAME` shows one with the origin of every value.\n"
      "A device of your own is a file with the same values (`--catalogue FILE`); core/documents/proto/catalogue.proto has its form.\n");
  return 0;
}

int show_device(const Catalogue& catalogue, const std::string& name, bool json) {
  const CatalogueDevice& device = catalogue.find(name);
  write_out(json ? json_text(json_of(device)) : table_of(device));
  return 0;
}

void add_devices_command(CLI::App& app, Invocation& invocation) {
  struct Flags {
    std::string name;
    std::vector<std::string> catalogues;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("devices", "the boards and processors Millrace knows, or one of them value by value");
  command->footer(
      "\nExamples:\n  millrace devices\n  millrace devices vc709\n  millrace devices h200 --json\n"
      "  millrace doctor --measure --catalogue-out here.textproto && millrace devices cpu --catalogue here.textproto\n");
  command->add_option("name", flags->name, "a short name, as --cluster takes it, or the chip's");
  CLI::Option* catalogue = command->add_option("--catalogue", flags->catalogues, "devices of your own; may be given several times");
  not_empty(catalogue->allow_extra_args(false));
  command->add_flag("--json", flags->json, "JSON on standard output");
  command->callback([flags, &invocation] {
    invocation.json = flags->json;
    invocation.run = [flags] {
      const Catalogue known = catalogue_with(flags->catalogues);
      return flags->name.empty() ? list_devices(known, flags->json) : show_device(known, flags->name, flags->json);
    };
  });
}

}  // namespace millrace
