#include "gpu/catalogue/gpu_catalogue.h"

#include <gtest/gtest.h>

#include "core/documents/catalogue.h"
#include "tests/gpu/catalogue/gpus.h"

namespace millrace {
namespace {

TEST(GpuCatalogue, HasTheGpusPeopleNameInClusters) {
  for (const char* name : {"k80", "titanx", "p100", "titanv", "v100", "a100", "h100", "h200"}) EXPECT_EQ(gpus().find(name).kind, "gpu");
}

TEST(GpuCatalogue, EveryGpuHasWhatItsKindNeeds) {
  for (const CatalogueDevice& gpu : gpus().devices) {
    SCOPED_TRACE(gpu.name);
    EXPECT_FALSE(gpu.summary.empty());
    for (const char* needed :
         {"macs_per_second_fp32", "efficiency_conv_forward", "efficiency_conv_error_back", "efficiency_conv_parameter_gradient",
          "efficiency_dense", "efficiency_memory", "launch_seconds", "step_seconds", "on_chip_bytes", "memory_bytes",
          "memory_bytes_per_second", "link_gbps", "pcie_bytes_per_second", "sms", "clock_hz", "watts"})
      EXPECT_TRUE(gpu.has(needed)) << needed;
    EXPECT_EQ(gpu.has("macs_per_second_fp16"), gpu.has("efficiency_fp16_ratio"));
    for (const CatalogueValue& value : gpu.values) {
      EXPECT_GT(value.value, 0) << value.name;
      EXPECT_FALSE(value.note.empty()) << value.name;
    }
  }
}

TEST(GpuCatalogue, FiguresAreSane) {
  for (const CatalogueDevice& gpu : gpus().devices) {
    SCOPED_TRACE(gpu.name);
    const double macs_per_cycle_and_sm = gpu.value("macs_per_second_fp32") / gpu.value("clock_hz") / gpu.value("sms");
    EXPECT_GE(macs_per_cycle_and_sm, 63);   // 64 cores in an SM from Pascal to Ampere,
    EXPECT_LE(macs_per_cycle_and_sm, 193);  // 128 in Maxwell and Hopper, 192 in Kepler
    EXPECT_GT(gpu.value_or("macs_per_second_fp16", 1e99), 1.9 * gpu.value("macs_per_second_fp32"));
    EXPECT_GT(gpu.value("memory_bytes"), 11e9);
    EXPECT_LT(gpu.value("memory_bytes"), 200e9);
    EXPECT_LT(gpu.value("memory_bytes_per_second"), 5e12);
    EXPECT_LT(gpu.value("on_chip_bytes"), 1e8);
    EXPECT_LT(gpu.value("step_seconds"), 1e-4);
    EXPECT_LE(gpu.value("efficiency_memory"), 1);
    EXPECT_LE(gpu.value("efficiency_dense"), 1);
    EXPECT_GE(gpu.value("watts"), 250);
    EXPECT_LE(gpu.value("watts"), 700);
  }
  // Each generation is faster than the one before it.
  double before = 0;
  for (const char* name : {"titanx", "p100", "v100", "a100", "h100"}) {
    EXPECT_GT(gpus().find(name).value("macs_per_second_fp32"), before) << name;
    before = gpus().find(name).value("macs_per_second_fp32");
  }
}

TEST(GpuCatalogue, FpdeepsGpusReachItsTableSix) {
  const auto conv_gops = [](const char* name) {
    const CatalogueDevice& gpu = gpus().find(name);
    return 2e-9 * gpu.value("macs_per_second_fp32") * gpu.value("efficiency_conv_forward");
  };
  EXPECT_NEAR(conv_gops("k80"), (2330 + 2018) / 2.0, 0.02 * 2174);
  EXPECT_NEAR(conv_gops("titanx"), 1385, 0.02 * 1385);
}

}  // namespace
}  // namespace millrace
