// What `millrace study` prints and writes: keys that scripts rely on, tables that line up, CSV that every reader takes.
#include "deploy/command/study/study_output.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/graph/zoo.h"
#include "deploy/command/study/paper_output.h"
#include "deploy/session/catalogue_registry.h"
#include "tests/deploy/command/command_output.h"

namespace millrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing_support::keys_of;

class StudyOutput : public testing::Test {
 protected:
  StudyOutput() {
    task_.graph = &graph_;
    task_.device = "vc709";
    task_.link = {150, 150, 150, 0.5};
    StudyPoint five;
    five.devices = 5;
    five.reason = "device 0 lacks \"much\", and more";
    StudyPoint twenty;
    twenty.devices = 20;
    twenty.feasible = true;
    twenty.images_per_second = twenty.full_speed_images_per_second = 262.5;
    twenty.hours_per_epoch = 1.356;
    twenty.max_link_gbps = 22.75;
    twenty.max_link_gbps_both = 45.5;
    twenty.bottleneck = {"device", 3};
    study_.points = {five, twenty};
    study_.linear_up_to = 20;
  }

  StudySweep sweep() const { return {.curves = {{task_, study_}}, .wirings = {}, .failures = {}}; }

  const Graph graph_{zoo_model("lenet5")};
  StudyTask task_;
  Study study_;
};

TEST_F(StudyOutput, JsonHasTheKeysOfTheContract) {
  const json document = json::parse(study_json(sweep()));
  EXPECT_EQ(document.at("linear_up_to"), 20);
  const json& point = document.at("points").at(1);
  const std::set<std::string> keys = keys_of(point);
  for (const char* key :
       {"devices", "images_per_second", "max_link_gbps", "max_link_gbps_both", "idle_fraction", "hours_per_epoch", "feasible"})
    EXPECT_TRUE(keys.contains(key)) << key;
  EXPECT_EQ(point.at("images_per_second"), 262.5);
  EXPECT_EQ(point.at("feasible"), true);
  EXPECT_EQ(point.at("bottleneck").at("index"), 3);
  const json& infeasible = document.at("points").at(0);
  EXPECT_EQ(keys_of(infeasible), keys);
  EXPECT_EQ(infeasible.at("feasible"), false);
  EXPECT_TRUE(infeasible.at("images_per_second").is_null());
  EXPECT_EQ(infeasible.at("reason"), "device 0 lacks \"much\", and more");
}

TEST_F(StudyOutput, CsvHasAsManyFieldsInEveryLine) {
  std::istringstream lines(study_csv(sweep()));
  std::string line;
  while (std::getline(lines, line)) {
    bool quoted = false;
    int fields = 1;
    for (const char character : line) {
      if (character == '"') quoted = !quoted;
      if (character == ',' && !quoted) ++fields;
    }
    EXPECT_FALSE(quoted) << line;
    EXPECT_EQ(fields, 17) << line;
  }
  EXPECT_THAT(study_csv(sweep()), HasSubstr("\"device 0 lacks \"\"much\"\", and more\""));
}

TEST_F(StudyOutput, CurvesAreToldApartByWhatIsSwept) {
  StudySweep two = sweep();
  two.curves.push_back(two.curves.front());
  two.curves[1].task.options.strategy = Strategy::kLayer;
  two.curves[1].study.linear_up_to = 16;
  two.curves[1].study.first_slowed = 17;
  const json document = json::parse(study_json(two));
  EXPECT_EQ(document.at("linear_up_to"), 20);
  ASSERT_EQ(document.at("points").size(), 4u);
  EXPECT_EQ(document.at("points").at(3).at("curve"), 1);
  EXPECT_EQ(document.at("curves").at(0).at("name"), "hybrid");
  EXPECT_EQ(document.at("curves").at(1).at("strategy"), "layer");
  EXPECT_EQ(document.at("curves").at(1).at("linear_up_to"), 16);
  EXPECT_THAT(study_csv(two), HasSubstr("device 3,,layer,fpdeep,"));
  EXPECT_THAT(study_table(two), HasSubstr("layer parallelism, fpdeep alignment"));
  EXPECT_FALSE(json::parse(study_json(sweep())).contains("curves"));
}

TEST_F(StudyOutput, TablesSayWhatIsLinear) {
  EXPECT_THAT(study_table(sweep()), HasSubstr("linear up to 20 devices: links never slow a ring of this study down"));
  study_.linear_up_to = 12;
  study_.first_slowed = 13;
  EXPECT_THAT(study_table(sweep()), HasSubstr("linear up to 12 devices: with 13, links slow the ring down"));
  study_.linear_up_to = 0;
  EXPECT_THAT(study_table(sweep()), HasSubstr("not linear"));
  EXPECT_THAT(study_table(sweep()), HasSubstr("5 devices: device 0 lacks"));
  study_.points.pop_back();
  EXPECT_THAT(study_table(sweep()), Not(HasSubstr("linear")));
}

class PaperOutput : public testing::Test {
 protected:
  PaperOutput() {
    for (const FpdeepFigure& figure : fpdeep_figures()) {
      PaperRow row;
      row.figure = figure;
      row.model = std::isinf(figure.most) ? figure.least : figure.most;
      row.origin = "dsp catalogue";
      row.verdict = verdict_on(figure, row.model);
      rows_.push_back(row);
    }
    rows_[3].model = std::numeric_limits<double>::quiet_NaN();
    rows_[3].verdict = Verdict::kNotReproduced;
    rows_[3].note = "no plan";
  }

  const CatalogueDevice& board_ = shipped_catalogue().find("vc709");
  std::vector<PaperRow> rows_;
};

TEST_F(PaperOutput, JsonTellsRowsConstantsAndCounts) {
  const json document = json::parse(paper_json(rows_, board_));
  EXPECT_EQ(document.at("paper"), "fpdeep");
  ASSERT_EQ(document.at("rows").size(), rows_.size());
  for (const json& row : document.at("rows"))
    EXPECT_EQ(keys_of(row),
              (std::set<std::string>{"id", "quantity", "network", "unit", "paper", "paper_text", "source", "model", "difference",
                                     "tolerance", "verdict", "contradiction", "note", "otherwise", "constants"}));
  EXPECT_TRUE(document.at("rows").at(3).at("model").is_null());
  EXPECT_EQ(document.at("rows").at(3).at("verdict"), "not reproduced");
  EXPECT_EQ(document.at("counts").at("not reproduced"), 1);
  int64_t all = 0;
  for (const auto& [verdict, count] : document.at("counts").items()) all += count.get<int64_t>();
  EXPECT_EQ(all, static_cast<int64_t>(rows_.size()));
  std::set<std::string> origins;
  for (const json& constant : document.at("constants")) origins.insert(constant.at("origin"));
  EXPECT_EQ(origins, (std::set<std::string>{"catalogue", "chosen", "fitted", "paper"}));
}

TEST_F(PaperOutput, TablesTellVerdictsOriginsAndContradictions) {
  const std::string table = paper_table(rows_, board_);
  EXPECT_THAT(table, HasSubstr("GOPS per FPGA, 15 boards"));
  EXPECT_THAT(table, HasSubstr("catalogue, fitted, paper"));
  EXPECT_THAT(table, HasSubstr("dsp_engine_share"));
  EXPECT_THAT(table, HasSubstr("hours per epoch, 15 boards: its GOPS"));
  EXPECT_THAT(table, HasSubstr("not reproduced: 1"));
  EXPECT_THAT(table, HasSubstr(", alexnet: no plan"));
  EXPECT_THAT(table, Not(HasSubstr("nan")));
}

TEST_F(PaperOutput, SimulationsStandBesideTheModel) {
  EXPECT_THAT(paper_table(rows_, board_), Not(HasSubstr("simulated")));
  rows_[9].simulated = rows_[9].model;
  rows_[9].simulated_verdict = Verdict::kHolds;
  rows_[10].simulated = 3 * rows_[10].model;
  rows_[10].simulated_verdict = Verdict::kNotReproduced;
  rows_[10].simulated_note = "three times";
  const json document = json::parse(paper_json(rows_, board_));
  EXPECT_EQ(document.at("rows").at(10).at("simulated"), 3 * rows_[10].model);
  EXPECT_EQ(document.at("rows").at(10).at("simulated_verdict"), "not reproduced");
  EXPECT_FALSE(document.at("rows").at(11).contains("simulated"));
  const std::string table = paper_table(rows_, board_);
  EXPECT_THAT(table, HasSubstr("(outside)"));
  EXPECT_THAT(table, HasSubstr("simulated: 2, of which 1 not within what is accepted"));
  EXPECT_THAT(table, HasSubstr("simulated: three times"));
}

TEST_F(PaperOutput, CsvLeavesOutWhatIsNotThere) {
  const std::string csv = paper_csv(rows_);
  EXPECT_THAT(csv, Not(HasSubstr("nan")));
  EXPECT_THAT(csv, Not(HasSubstr("inf,")));
  std::istringstream lines(csv);
  std::string line;
  size_t count = 0;
  while (std::getline(lines, line)) ++count;
  EXPECT_EQ(count, rows_.size() + 1);
}

}  // namespace
}  // namespace millrace
