#include "fpga/conv_ce/generator/parameter_homes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(ParameterHomes, CountWhatAPlanStoresElsewhere) {
  Plan plan;
  plan.homes = {{"conv", "weight", 0, 30, 1, 1}, {"conv", "weight", 30, 12, 0, 1}, {"fc", "weight", 0, 7, 1, 2}};
  const ParameterHomes homes = parameter_homes(plan, 1);
  EXPECT_EQ(homes.stored_elsewhere, 12);
  EXPECT_EQ(homes.stored_for_others, 7);
  EXPECT_THAT(text_of(homes, 1), HasSubstr("12 elements of device 1's layers are stored on others, and 7 of others' on it"));
  EXPECT_TRUE(parameter_homes(plan, 0).any()) << "it stores for another";
  plan.homes = {{"conv", "weight", 0, 30, 1, 1}};
  EXPECT_FALSE(parameter_homes(plan, 1).any());
}

}  // namespace
}  // namespace millrace
