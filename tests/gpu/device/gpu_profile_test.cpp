// What is measured of a GPU reaches the planner as measured, and the rest stays what the catalogue says.
#include "gpu/device/gpu_profile.h"

#include <gtest/gtest.h>

#include "gpu/catalogue/gpu_catalogue.h"
#include "gpu/catalogue/gpu_cost_model.h"
#include "gpu/device/gpu_device.h"
#include "tests/core/documents/expect_error.h"
#include "tests/gpu/device/queued_engine.h"

namespace millrace::testing {
namespace {

GpuProfile profile_of_queues() {
  const auto device = make_gpu_device(std::make_unique<QueuedEngine>(QueuedOptions{}));
  return measure_gpu_profile(*device, "queues on the host", 5e9, {.dense = 8, .channels = 3, .extent = 5, .batch = 2, .copied = 4096});
}

TEST(GpuProfile, SharesAreOfTheFastestThingSeen) {
  const GpuProfile profile = profile_of_queues();
  for (const double share :
       {profile.convolution_forward, profile.convolution_error_back, profile.convolution_parameter_gradient, profile.dense}) {
    EXPECT_GT(share, 0);
    EXPECT_LE(share, 1);
  }
  for (const double rate : {profile.macs_per_second, profile.bytes_per_second, profile.upload_bytes_per_second,
                            profile.download_bytes_per_second, profile.launch_seconds})
    EXPECT_GT(rate, 0);
}

TEST(GpuProfile, TakesThePlaceOfTheCataloguesFiguresAndSaysSo) {
  const Catalogue catalogue = parse_catalogue(gpu_catalogue_text(), "gpu/catalogue");
  const CatalogueDevice& base = catalogue.find("h200");
  const GpuProfile profile = profile_of_queues();
  const CatalogueDevice here = measured_device(profile, base);
  EXPECT_EQ(here.value("macs_per_second_fp32"), profile.macs_per_second);
  EXPECT_EQ(here.entry("macs_per_second_fp32")->origin, "measured");
  EXPECT_EQ(here.entry("macs_per_second_fp32")->note, "on queues on the host");
  EXPECT_EQ(here.value("link_gbps"), base.value("link_gbps"));
  EXPECT_EQ(here.entry("link_gbps")->origin, "catalogue");
  EXPECT_EQ(here.values.size(), base.values.size());
  bool said = false;
  for (const Constant& constant : make_gpu_cost_model(here, ElementType::kFloat32)->constants())
    said = said || (constant.name == "efficiency_conv_forward" && constant.origin.starts_with("measured on "));
  EXPECT_TRUE(said);

  // Of a GPU that no catalogue knows, what was measured is enough to plan with.
  CatalogueDevice unknown;
  unknown.name = "a GPU";
  unknown.short_names = {"gpu"};
  unknown.kind = "gpu";
  EXPECT_NE(make_gpu_cost_model(measured_device(profile, unknown), ElementType::kFloat32), nullptr);

  GpuProfile narrow = profile;
  narrow.precision = "bf16";
  expect_error(ErrorCode::kUsage, "and bf16 was measured", [&] { measured_device(narrow, base); });
}

}  // namespace
}  // namespace millrace::testing
