// `millrace models`: the JSON that scripts rely on, and tables that line up.
#include "deploy/command/information/models_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/documents/model.h"
#include "core/graph/zoo.h"
#include "tests/deploy/command/command_output.h"

namespace millrace {
namespace {

using nlohmann::json;
using testing_support::keys_of;
using testing_support::output_of;

TEST(ModelsCommand, ShowsAModelAsJson) {
  const json model = json::parse(output_of([] { return show_model("vgg16", true); }));
  EXPECT_EQ(keys_of(model), (std::set<std::string>{"name", "input", "parameters", "layers", "macs"}));
  EXPECT_EQ(model["name"], "vgg16");
  EXPECT_EQ(model["input"], json({3, 224, 224}));
  EXPECT_EQ(model["parameters"], 138'357'544);
  EXPECT_EQ(model["macs"], json({{"conv", 15'346'630'656}, {"dense", 123'633'664}, {"rnn", 0}}));
  ASSERT_EQ(model["layers"].size(), zoo_model("vgg16").layers.size());
  EXPECT_EQ(model["layers"][0],
            json({{"name", "conv1_1"}, {"op", "conv2d"}, {"macs", 86'704'128}, {"parameters", 1792}, {"output", {64, 224, 224}}}));
  int64_t macs = 0, parameters = 0;
  for (const json& layer : model["layers"]) {
    EXPECT_EQ(keys_of(layer), (std::set<std::string>{"name", "op", "macs", "parameters", "output"}));
    macs += layer["macs"].get<int64_t>();
    parameters += layer["parameters"].get<int64_t>();
  }
  EXPECT_EQ(macs, 15'346'630'656 + 123'633'664);
  EXPECT_EQ(parameters, 138'357'544);
}

TEST(ModelsCommand, ListsTheZooAsJson) {
  const json models = json::parse(output_of([] { return list_models(true); }))["models"];
  ASSERT_EQ(models.size(), zoo_names().size());
  for (size_t i = 0; i < models.size(); ++i) {
    EXPECT_EQ(keys_of(models[i]), (std::set<std::string>{"name", "summary", "input", "parameters", "macs"}));
    EXPECT_EQ(models[i]["name"], zoo_names()[i]);
  }
}

TEST(ModelsCommand, ColumnsOfNumbersEndTogether) {
  std::istringstream lines(output_of([] { return show_model("lenet5", false); }));
  std::string line;
  std::vector<std::string> rows;
  while (std::getline(lines, line))
    if (line.find("conv2d") != std::string::npos || line.find("dense  ") != std::string::npos) rows.push_back(line);
  ASSERT_EQ(rows.size(), 5U);
  for (const std::string& row : rows) EXPECT_EQ(row.size(), rows[0].size()) << row;
}

TEST(ModelsCommand, ReadsAModelDocument) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "models_command_test.textproto";
  save(zoo_model("lenet5"), path);
  EXPECT_EQ(output_of([&] { return show_model(path.string(), true); }), output_of([] { return show_model("lenet5", true); }));
  std::filesystem::remove(path);
}

TEST(ModelsCommand, UnknownNamesAndPathsAreErrors) {
  const std::pair<std::string, ErrorCode> cases[] = {{"lenet", ErrorCode::kUsage}, {"nowhere/lenet.textproto", ErrorCode::kNotFound}};
  for (const auto& [name, code] : cases) {
    try {
      show_model(name, true);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.what(), testing::HasSubstr(name));
    }
  }
}

}  // namespace
}  // namespace millrace
