// The list of operations, the model document's, and what each states about itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/documents/model.h"
#include "model.pb.h"

namespace millrace {
namespace {

using ::testing::UnorderedElementsAreArray;

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Operation& operation : catalogue()) names.emplace_back(name_of(operation));
  return names;
}

TEST(Catalogue, HasTheOperationsOfTheModelDocument) {
  std::vector<std::string> fields;
  const auto* oneof = documents::Layer::descriptor()->FindOneofByName("operation");
  for (int i = 0; i < oneof->field_count(); ++i) fields.push_back(oneof->field(i)->name());
  EXPECT_THAT(names(), UnorderedElementsAreArray(fields));
}

TEST(Catalogue, NamesEachOnce) {
  const std::vector<std::string> all = names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

TEST(Catalogue, HasAWindowWhereRowsComeFromOne) {
  for (const Operation& operation : catalogue()) {
    const Traits traits = traits_of(operation);
    EXPECT_EQ(traits.row_window.has_value(), traits.rows == Rows::kWindow) << name_of(operation);
  }
}

// What has rows of its own makes as many as it says.
TEST(Catalogue, ShapesFollowTheRowsThatAreRead) {
  const std::vector<Shape> inputs = {{1, 6, 1}};
  for (Operation operation : catalogue()) {
    if (auto* const conv = std::get_if<Conv2d>(&operation)) *conv = {.out_channels = 2, .kernel_h = 3, .stride_h = 2};
    if (auto* const pool = std::get_if<Pool2d>(&operation)) *pool = {.kind = pool->kind, .kernel_h = 3, .kernel_w = 1, .stride_w = 1};
    if (auto* const dense = std::get_if<Dense>(&operation)) dense->out_features = 2;
    if (auto* const cell = std::get_if<Recurrent>(&operation)) cell->hidden = 2;
    if (auto* const table = std::get_if<Embedding>(&operation)) *table = {.vocabulary = 3, .dimension = 2};
    const bool joins = role_of(operation) == Role::kJoining;
    const std::vector<Shape> given = joins ? std::vector<Shape>{inputs[0], inputs[0]} : inputs;
    const Shape output = infer_shape(operation, given, "layer");
    const Traits traits = traits_of(operation);
    int64_t rows = 6;
    if (traits.rows == Rows::kWindow) rows = traits.row_window->positions(6);
    if (traits.rows == Rows::kAll || traits.rows == Rows::kLast) rows = 1;
    EXPECT_EQ(output.height, rows) << name_of(operation);
    if (!traits.keeps_channels) continue;
    EXPECT_EQ(output.channels, given[0].channels) << name_of(operation);
    EXPECT_TRUE(parameters_of(operation, given).empty()) << name_of(operation);
  }
}

// A block's weights are what the whole has for its channels.
TEST(Blocks, HaveTheWeightsOfTheirChannels) {
  const std::vector<Shape> whole = {{8, 5, 5}}, half = {{4, 5, 5}};
  const Conv2d conv{.out_channels = 6, .kernel_h = 3, .kernel_w = 3};
  EXPECT_EQ(parameters_of(block_of(conv, 8, 4, 2), half)[0].dimensions, (std::vector<int64_t>{2, 4, 3, 3}));
  const Conv2d grouped{.out_channels = 8, .kernel_h = 3, .kernel_w = 3, .groups = 4};
  const Operation part = block_of(grouped, 8, 4, 4);
  EXPECT_EQ(std::get<Conv2d>(part).groups, 2) << "whole groups of it";
  EXPECT_EQ(parameters_of(part, half)[0].dimensions, (std::vector<int64_t>{4, 2, 3, 3}));
  const std::vector<Shape> features = {{4, 1, 1}};
  EXPECT_EQ(parameters_of(block_of(Dense{.out_features = 6}, 8, 4, 5), features)[0].dimensions, (std::vector<int64_t>{5, 4}));
  EXPECT_EQ(block_of(Add{}, 8, 4, 4), Operation(Add{})) << "what is never divided is its only block";
}

}  // namespace
}  // namespace millrace
