// `millrace devices`: the JSON that scripts rely on, and amounts as people read them.
#include "deploy/command/information/devices_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "deploy/session/catalogue_registry.h"
#include "tests/deploy/command/command_output.h"

namespace millrace {
namespace {

using nlohmann::json;
using testing_support::keys_of;
using testing_support::output_of;

std::string shown(double value, const std::string& unit) { return text_of(CatalogueValue{"x", value, unit, "paper", ""}); }

TEST(DevicesCommand, ShowsADeviceAsJson) {
  const json device = json::parse(output_of([] { return show_device(shipped_catalogue(), "XC7VX690T", true); }));
  EXPECT_EQ(keys_of(device), (std::set<std::string>{"name", "short_names", "kind", "summary", "values"}));
  EXPECT_EQ(device["name"], "XC7VX690T");
  EXPECT_EQ(device["short_names"], json({"vc709"}));
  EXPECT_EQ(device["kind"], "fpga");
  bool found = false;
  for (const json& value : device["values"]) {
    EXPECT_EQ(keys_of(value), (std::set<std::string>{"name", "value", "unit", "origin", "note"}));
    if (value["name"] != "bram36") continue;
    found = true;
    EXPECT_EQ(value["value"], 1470);
    EXPECT_EQ(value["origin"], "catalogue");
  }
  EXPECT_TRUE(found);
}

TEST(DevicesCommand, ListsEveryDeviceAsJson) {
  const json devices = json::parse(output_of([] { return list_devices(shipped_catalogue(), true); }))["devices"];
  ASSERT_EQ(devices.size(), shipped_catalogue().devices.size());
  for (const json& device : devices)
    EXPECT_EQ(device, json::parse(output_of([&] { return show_device(shipped_catalogue(), device["short_names"][0], true); })));
}

TEST(DevicesCommand, TablesNameEveryDeviceAndEveryValue) {
  const std::string list = output_of([] { return list_devices(shipped_catalogue(), false); });
  for (const std::string& name : shipped_catalogue().short_names()) EXPECT_THAT(list, testing::HasSubstr(name));
  for (const CatalogueDevice& device : shipped_catalogue().devices) {
    const std::string table = output_of([&] { return show_device(shipped_catalogue(), device.short_names[0], false); });
    EXPECT_THAT(table, testing::HasSubstr(device.summary));
    for (const CatalogueValue& value : device.values) {
      EXPECT_THAT(table, testing::HasSubstr("\n" + value.name + " "));
      EXPECT_THAT(table, testing::HasSubstr(text_of(value) + "  " + value.origin));
    }
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 140U) << line;
  }
}

TEST(DevicesCommand, DevicesThatSayLittleAreListedToo) {
  const Catalogue little{{{"thing", {"thing"}, "npu", "", {}}}};
  EXPECT_THAT(output_of([&] { return list_devices(little, false); }),
              testing::HasSubstr("thing   npu                            -          -          -\n"));
  EXPECT_THAT(output_of([&] { return show_device(little, "thing", false); }), testing::StartsWith("thing: thing, npu\n\nvalue  amount"));
  EXPECT_THAT(output_of([&] { return list_devices(Catalogue{}, true); }), "{\n  \"devices\": []\n}\n");
}

TEST(DevicesCommand, AmountsAreReadable) {
  EXPECT_EQ(shown(3600, "1"), "3,600");
  EXPECT_EQ(shown(0, "1"), "0");
  EXPECT_EQ(shown(-1234567, "1"), "-1,234,567");
  EXPECT_EQ(shown(0.85, "1"), "0.85");
  EXPECT_EQ(shown(1e300, "1"), "1e+300");
  EXPECT_EQ(shown(200e6, "Hz"), "200 MHz");
  EXPECT_EQ(shown(8589934592.0, "B"), "8.59 GB");
  EXPECT_EQ(shown(4.8e12, "B/s"), "4.8 TB/s");
  EXPECT_EQ(shown(33.45e12, "1/s"), "33.45 T/s");
  EXPECT_EQ(shown(5e-6, "s"), "5 us");
  EXPECT_EQ(shown(0, "B"), "0 B");
  EXPECT_EQ(shown(1e300, "Hz"), "1e+300 Hz");
  EXPECT_EQ(shown(75, "Gb/s"), "75 Gb/s");
  EXPECT_EQ(shown(0.01264, "W"), "0.01264 W");
}

TEST(DevicesCommand, UnknownNamesAreErrors) {
  try {
    show_device(shipped_catalogue(), "vc707", true);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean \"vc709\"?"));
  }
}

}  // namespace
}  // namespace millrace
