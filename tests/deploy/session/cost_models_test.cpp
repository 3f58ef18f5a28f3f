// From --cluster and --catalogue to rings of devices with their cost models.
#include "deploy/session/cost_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/files.h"
#include "deploy/session/catalogue_registry.h"
#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

// "vc709-0=vc709 ..."
std::string devices_of(const Cluster& cluster) {
  std::string text;
  for (const DeviceEntry& device : cluster.devices) text += (text.empty() ? "" : " ") + device.name + "=" + device.device;
  return text;
}

TEST(CatalogueRegistry, KnowsTheShippedDevices) {
  for (const char* name : {"vc709", "zc706", "vu9p", "u200", "vu13p", "u250", "u280", "u55c", "vc1802", "k80", "titanx", "p100", "titanv",
                           "v100", "a100", "h100", "h200", "cpu"})
    EXPECT_NO_THROW(shipped_catalogue().find(name)) << name;
  std::set<std::string> names;
  for (const std::string& name : shipped_catalogue().short_names()) EXPECT_TRUE(names.insert(name).second) << name;
  // What was shipped as three documents is a good document as a whole.
  EXPECT_EQ(parse_catalogue(text_of(shipped_catalogue()), "shipped"), shipped_catalogue());
}

TEST(CatalogueRegistry, LaterFilesTakeNamesOver) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "millrace_catalogue_registry";
  make_folders(folder);
  Catalogue mine{{shipped_catalogue().find("u200")}};
  mine.devices[0].name = "first";
  mine.devices[0].short_names = {"u200", "mine"};
  save(mine, folder / "first.textproto");
  mine.devices[0].name = "second";
  mine.devices[0].short_names = {"mine"};
  save(mine, folder / "second.textproto");
  const std::vector<std::string> files = {(folder / "first.textproto").string(), (folder / "second.textproto").string()};
  const Catalogue catalogue = catalogue_with(files);
  EXPECT_EQ(catalogue.find("vu9p").name, "VU9P");
  EXPECT_EQ(catalogue.find("u200").name, "first");
  EXPECT_EQ(catalogue.find("mine").name, "second");
  EXPECT_EQ(catalogue_with({}), shipped_catalogue());
  const std::vector<std::string> missing = {(folder / "third.textproto").string()};
  expect_error(ErrorCode::kNotFound, "third.textproto", [&] { catalogue_with(missing); });
  std::filesystem::remove_all(folder);
}

TEST(ClusterFrom, LinksHaveTheSmallerRateOfTheirNeighbours) {
  const Cluster cluster = cluster_from("vc709x2+h200x2+cpu", shipped_catalogue());
  EXPECT_EQ(cluster.name, "vc709x2+h200x2+cpu");
  EXPECT_EQ(devices_of(cluster), "vc709-0=vc709 vc709-1=vc709 h200-2=h200 h200-3=h200 cpu4=cpu");
  std::vector<double> gbps;
  for (const LinkEntry& link : cluster.links) {
    EXPECT_EQ(link.forward_gbps, link.backward_gbps);
    EXPECT_EQ(link.shared_gbps, 0);
    EXPECT_EQ(link.latency_us, kDefaultLatencyUs);
    gbps.push_back(link.forward_gbps);
  }
  EXPECT_EQ(gbps, (std::vector<double>{75, 75, 1800, 100}));
  EXPECT_EQ(cluster_from("cpux4", shipped_catalogue()), parse_cluster_shorthand("cpux4"));
  EXPECT_TRUE(cluster_from("u280", shipped_catalogue()).links.empty());
}

TEST(ClusterFrom, DevicesAreCalledAsTheCatalogueDoes) {
  EXPECT_EQ(devices_of(cluster_from("VC709x2+xc7z045+U200", shipped_catalogue())), "vc709-0=vc709 vc709-1=vc709 zc706-2=zc706 u200-3=u200");
  EXPECT_EQ(cluster_from("VC709x2", shipped_catalogue()).name, "VC709x2");
}

TEST(ClusterFrom, UnknownDevicesAreRefusedWithTheNearest) {
  expect_error(ErrorCode::kUsage, "cluster \"vc707x15\": no device \"vc707\" in the catalogue; did you mean \"vc709\"?",
               [] { cluster_from("vc707x15", shipped_catalogue()); });
  expect_error(ErrorCode::kUsage, "cluster \"cpu+\"", [] { cluster_from("cpu+", shipped_catalogue()); });
  expect_error(ErrorCode::kUsage, "cluster \"\"", [] { cluster_from("", shipped_catalogue()); });
  expect_error(ErrorCode::kNotFound, "nowhere.textproto", [] { cluster_from("nowhere.textproto", shipped_catalogue()); });
  expect_error(ErrorCode::kNotFound, "clusters/lab", [] { cluster_from("clusters/lab", shipped_catalogue()); });
}

TEST(ClusterFrom, FilesSayTheirOwnLinks) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "cost_models_test_cluster.textproto";
  write_atomically(path, "repeat { count: 2 device: \"VC709\" } repeat { device: \"u280\" } default_link { gbps: 12 latency_us: 3 }");
  const Cluster cluster = cluster_from(path.string(), shipped_catalogue());
  EXPECT_EQ(cluster.links, (std::vector<LinkEntry>(2, {12, 12, 0, 3})));
  EXPECT_EQ(cluster.devices[1].device, "vc709");
  write_atomically(path, "repeat { count: 2 device: \"vc709\" } repeat { device: \"u28\" }");
  expect_error(ErrorCode::kUsage, "devices[2]: no device \"u28\" in the catalogue; did you mean \"u280\"?",
               [&] { cluster_from(path.string(), shipped_catalogue()); });
  std::filesystem::remove(path);
}

TEST(ModelsFor, OneModelForEachKindOfBoard) {
  const Cluster cluster = cluster_from("u280x3+h200x2+u280+cpu", shipped_catalogue());
  const CostModels models = models_for(cluster, shipped_catalogue(), {.compute = ElementType::kFixed16, .wire = ElementType::kFixed16});
  ASSERT_EQ(models.of_devices.size(), 7U);
  EXPECT_EQ(models.owned.size(), 3U);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(models.of_devices[i]->device(), cluster.devices[i].device);
  EXPECT_EQ(models.of_devices[0], models.of_devices[5]);
  EXPECT_TRUE(models.of_devices[0]->dedicated_engines());
  EXPECT_FALSE(models.of_devices[3]->dedicated_engines());
}

TEST(ModelsFor, EveryShippedDeviceHasOne) {
  for (const std::string& name : shipped_catalogue().short_names())
    for (const ElementType type : {ElementType::kFloat32, ElementType::kFixed16}) {
      const CostModels models = models_for(uniform_cluster(name, 2), shipped_catalogue(), {.compute = type, .wire = type});
      ASSERT_EQ(models.of_devices.size(), 2U);
      EXPECT_EQ(models.of_devices[0]->device(), name);
      EXPECT_FALSE(models.of_devices[0]->constants().empty());
      EXPECT_GT(models.of_devices[0]->capacities()[models.of_devices[0]->parameter_memory()].amount, 0);
    }
}

TEST(ModelsFor, AnAliasIsItsOwnDevice) {
  const CostModels models = models_for(cluster_from("vu9p+u200", shipped_catalogue()), shipped_catalogue(), {});
  EXPECT_EQ(models.of_devices[0]->device(), "vu9p");
  EXPECT_EQ(models.of_devices[1]->device(), "u200");
}

TEST(ModelsFor, KindsWithoutAModelAndHolesAreRefused) {
  Catalogue catalogue{{shipped_catalogue().find("u280")}};
  catalogue.devices[0].kind = "fgpa";
  expect_error(ErrorCode::kMalformed,
               "the catalogue's device \"XCU280\" is of kind \"fgpa\", which has no cost model; did you mean \"fpga\"?",
               [&] { models_for(uniform_cluster("u280", 2), catalogue, {}); });
  catalogue.devices[0].kind = "gpu";
  expect_error(ErrorCode::kMalformed, "lacks the value \"macs_per_second_fp32\"",
               [&] { models_for(uniform_cluster("u280", 2), catalogue, {}); });
  expect_error(ErrorCode::kUsage, "cluster \"u250x2\": no device \"u250\" in the catalogue",
               [&] { models_for(uniform_cluster("u250", 2), catalogue, {}); });
  for (CatalogueValue& value : catalogue.devices[0].values)
    if (value.name == "link_gbps") value.value = -5;
  expect_error(ErrorCode::kMalformed, "link_gbps is -5", [&] { cluster_from("u280x2", catalogue); });
}

}  // namespace
}  // namespace millrace
