#include "core/cpu/cpu_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/graph/zoo.h"

namespace millrace {
namespace {

TEST(CpuCatalogue, IsTheShippedProfile) {
  const Catalogue catalogue = parse_catalogue(cpu_catalogue_text(), "core/cpu");
  ASSERT_EQ(catalogue.devices.size(), 1U);
  const CatalogueDevice& cpu = catalogue.find("cpu");
  EXPECT_EQ(cpu.kind, "cpu");
  EXPECT_EQ(cpu, catalogue_device_of(shipped_cpu_profile()));
  EXPECT_EQ(cpu.value("macs_per_second"), CpuProfile{}.macs_per_second);
  EXPECT_EQ(cpu.value("efficiency_dense_error_back"), CpuProfile{}.dense.error_back);
  EXPECT_EQ(cpu.value("link_gbps"), 100);
  for (const CatalogueValue& value : cpu.values) EXPECT_FALSE(value.note.empty()) << value.name;
}

TEST(CpuCatalogue, AProfileTakesTheWayThroughTextUnchanged) {
  CpuProfile profile;
  profile.threads = 3;
  profile.macs_per_second = 1.0 / 3e-11;
  profile.convolution.forward = 1.7;
  profile.measured_on = "a \"machine\" of two words";
  profile.convolutions = {{128, 256, 8, 8, 3, 1, 8, {1.25, 1.0 / 3, 0.75}, 8}, {3, 64, 32, 32, 3, 1, 8, {0.1, 0.2, 0.3}, 0}};
  const Catalogue written{{catalogue_device_of(profile)}};
  const Catalogue read = parse_catalogue(text_of(written), "written");
  EXPECT_EQ(read, written);
  const Graph graph(zoo_model("vgg16-cifar"));
  ShardQuestion question;
  question.node = &graph.node(graph.index_of("conv3_2"));
  question.micro_batch = 8;
  EXPECT_EQ(make_cpu_cost_model(read.find("cpu"))->demand_of(question).seconds, make_cpu_cost_model(profile)->demand_of(question).seconds);
  profile.convolutions.clear();
  EXPECT_NE(make_cpu_cost_model(read.find("cpu"))->demand_of(question).seconds, make_cpu_cost_model(profile)->demand_of(question).seconds);
  EXPECT_EQ(make_cpu_cost_model(profile)->constants()[1].origin, "measured on a \"machine\" of two words");
}

TEST(CpuCatalogue, TheShortNameIsTheCostModels) {
  CatalogueDevice cpu = catalogue_device_of(CpuProfile{});
  cpu.short_names = {"laptop", "cpu"};
  EXPECT_EQ(make_cpu_cost_model(cpu)->device(), "laptop");
  EXPECT_EQ(make_cpu_cost_model()->device(), "cpu");
}

TEST(CpuCatalogue, NamesOfNoConvolutionAreRefused) {
  const auto refusal = [](const char* name) {
    CatalogueDevice cpu = catalogue_device_of(CpuProfile{});
    cpu.values.push_back({name, 1, "1", "measured", "here"});
    try {
      make_cpu_cost_model(cpu);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (const char* name : {"efficiency_conv_8to8_4x4_k3s1_forward", "efficiency_conv_8to8_4x4_k3s1_b0_forward", "efficiency_conv_8",
                           "efficiency_conv_8to8_4x4_k3s1_b1_backwards"})
    EXPECT_THAT(refusal(name), ::testing::HasSubstr(name)) << name;
  EXPECT_THAT(refusal("efficiency_conv_8to8_4x4_k3s1_b1_error_back"), ::testing::HasSubstr("not the phase forward"));
  EXPECT_THAT(refusal("efficiency_conv_8to8_4x4_k3s1_b1_forward"),
              ::testing::HasSubstr("efficiency_conv_8to8_4x4_k3s1_b1_parameter_gradient"));
}

TEST(CpuCatalogue, ShippedShapesAreThoseOfAnInstructionSetThatIsKnown) {
  EXPECT_EQ(parse_catalogue(cpu_catalogue_text("avx512_core"), "core/cpu").find("cpu").value("shapes_of_avx"), 512);
  EXPECT_EQ(parse_catalogue(cpu_catalogue_text("avx2"), "core/cpu").find("cpu").value("shapes_of_avx"), 2);
  CatalogueDevice cpu = catalogue_device_of(CpuProfile{});
  EXPECT_FALSE(cpu.has("shapes_of_avx"));
  cpu.values.push_back({"shapes_of_avx", 7, "1", "measured", "here"});
  EXPECT_THROW(make_cpu_cost_model(cpu), Error);
}

TEST(CpuCatalogue, AbsurdValuesAreRefusedByName) {
  const auto refusal = [](std::string_view name, double number) {
    CatalogueDevice cpu = catalogue_device_of(CpuProfile{});
    for (CatalogueValue& value : cpu.values)
      if (value.name == name) value.value = number;
    try {
      make_cpu_cost_model(cpu);
    } catch (const Error& error) {
      EXPECT_EQ(name_of(error.code()), name_of(ErrorCode::kMalformed));
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (const char* name : {"threads", "macs_per_second", "memory_bytes", "cache_bytes", "efficiency_conv_error_back"})
    for (const double number : {0.0, -3.0, 1e300}) EXPECT_THAT(refusal(name, number), ::testing::HasSubstr(name)) << number;
}

}  // namespace
}  // namespace millrace
