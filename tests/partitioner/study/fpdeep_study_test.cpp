#include "partitioner/study/fpdeep_study.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "partitioner/choice/planner.h"
#include "partitioner/planning/roomy_memory.h"
#include "partitioner/study/full_bypass.h"
#include "partitioner/study/paper_page.h"
#include "tests/core/drawing/well_formed.h"
#include "tests/partitioner/study/vc709_rings.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing_support::Vc709Rings;
using testing_support::well_formed;

// No figure of the paper: only what a test sets.
FpdeepFigure figure_of_constants(std::string_view constants) {
  return {.id = "x",
          .network = "",
          .quantity = "x",
          .unit = "",
          .paper = 0,
          .paper_text = "",
          .source = "",
          .least = 0,
          .most = 0,
          .constants = constants};
}

TEST(FpdeepFigures, AreCompleteAndTellApart) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  std::map<std::string_view, int> networks;
  for (const FpdeepFigure& figure : fpdeep_figures()) {
    EXPECT_TRUE(seen.insert({figure.id, figure.network}).second) << figure.id << " " << figure.network;
    EXPECT_LE(figure.least, figure.most) << figure.id;
    EXPECT_FALSE(figure.quantity.empty());
    EXPECT_FALSE(figure.source.empty());
    if (!figure.network.empty()) ++networks[figure.id];
  }
  for (const char* id :
       {"gops", "hours", "gops_per_joule", "bram_at_home", "bram_balanced", "linear_150", "linear_250", "idle_mean", "unaligned"})
    EXPECT_EQ(networks[id], 3) << id;
}

// A name that nobody has would be left out of the table of constants.
TEST(FpdeepFigures, RestOnWhatTheTableHas) {
  const CatalogueDevice board = parse_catalogue(fpga_catalogue_text(), "the boards").find("vc709");
  for (const FpdeepFigure& figure : fpdeep_figures()) {
    std::istringstream names{std::string(figure.constants)};
    for (std::string name; names >> name;) {
      const bool rule = std::ranges::any_of(fpdeep_rules(), [&](const CatalogueValue& value) { return value.name == name; });
      EXPECT_TRUE(board.entry(name) != nullptr || name == "element_bits" || rule) << figure.id << ": " << name;
    }
  }
  std::vector<PaperRow> rows(1);
  rows.front().figure = figure_of_constants("clock_hz linear_tolerance");
  const std::vector<CatalogueValue> constants = fpdeep_constants(rows, board);
  ASSERT_EQ(constants.size(), 2U);
  EXPECT_EQ(constants[0].name, "clock_hz");
  EXPECT_EQ(constants[1].name, "linear_tolerance");
  EXPECT_EQ(constants[1].value, kLinearTolerance);
}

TEST(FpdeepVerdicts, FollowTheBounds) {
  FpdeepFigure figure = figure_of_constants("");
  figure.paper = 10;
  figure.least = 9;
  figure.most = 11;
  EXPECT_EQ(verdict_on(figure, 9), Verdict::kHolds);
  EXPECT_EQ(verdict_on(figure, 11), Verdict::kHolds);
  EXPECT_EQ(verdict_on(figure, 8.999), Verdict::kNotReproduced);
  EXPECT_EQ(verdict_on(figure, 11.001), Verdict::kNotReproduced);
  EXPECT_EQ(verdict_on(figure, std::nan("")), Verdict::kNotReproduced);
  figure.contradiction = "with itself";
  EXPECT_EQ(verdict_on(figure, 10), Verdict::kPaperContradictsItself);
  EXPECT_EQ(verdict_on(figure, 12), Verdict::kNotReproduced);
  figure.contradiction = "";
  figure.least = 0;
  figure.most = std::numeric_limits<double>::infinity();
  EXPECT_EQ(verdict_on(figure, 12), Verdict::kReported);
  EXPECT_EQ(verdict_on(figure, std::nan("")), Verdict::kNotReproduced);
}

TEST(FpdeepVerdicts, DifferencesAreOfNumbersAlone) {
  PaperRow row;
  row.figure.paper = 50;
  row.model = 55;
  EXPECT_NEAR(*row.difference(), 0.1, 1e-12);
  EXPECT_EQ(difference_text(row), "+10.0%");
  row.figure.paper_text = "under";
  EXPECT_FALSE(row.difference());
  row.figure.paper_text = "";
  row.model = std::nan("");
  EXPECT_FALSE(row.difference());
  row.figure.paper = std::nan("");
  EXPECT_EQ(difference_text(row), "-");
  EXPECT_EQ(paper_text(row.figure), "-");
}

TEST(FpdeepTexts, ReadAsPeopleWrite) {
  EXPECT_EQ(figure_text(62378344, ""), "62,378,344");
  EXPECT_EQ(figure_text(18.6, "Gb/s"), "18.6");
  EXPECT_EQ(figure_text(1, "yes/no"), "yes");
  EXPECT_EQ(figure_text(0, "yes/no"), "no");
  EXPECT_EQ(figure_text(std::nan(""), "%"), "-");
  const auto accepted = [](double least, double most) {
    FpdeepFigure figure{};
    figure.least = least;
    figure.most = most;
    return accepted_text(figure);
  };
  EXPECT_EQ(accepted(54, 60), "54 to 60");
  EXPECT_EQ(accepted(0, 80), "at most 80");
  EXPECT_EQ(accepted(150, std::numeric_limits<double>::infinity()), "at least 150");
  EXPECT_EQ(accepted(0, std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(accepted(7, 7), "7");
  EXPECT_EQ(accepted(1.07655, 1.07665), "1.07655 to 1.07665");
}

// 64 channels of 224 x 224 in and out of conv1_2, there and back.
TEST(FullBypass, Vgg16ByHand) {
  const Vc709Rings rings("vgg16");
  const StudyTask task = rings.task(0);
  const Outcome outcome = make_plan(plan_task_of(task, 15, task.link));
  EXPECT_DOUBLE_EQ(full_bypass_bits(*outcome.plan, rings.graph()), 4 * 64.0 * 224 * 224 * 16);
}

TEST(FullBypass, NeverLessThanWhatPasses) {
  const Vc709Rings rings("alexnet");
  const StudyTask task = rings.task(0);
  for (const int64_t boards : {2, 5, 9, 30}) {
    const Outcome outcome = make_plan(plan_task_of(task, boards, task.link));
    double most = 0;
    for (const LinkFigures& link : outcome.summary.links)
      most = std::max(most, link.forward_bits_per_image + link.backward_bits_per_image - link.parameter_bits_per_image);
    EXPECT_GE(full_bypass_bits(*outcome.plan, rings.graph()), most * (1 - 1e-12)) << boards;
  }
}

TEST(RoomyMemoryTest, ChangesNothingButTheMemory) {
  const Vc709Rings rings("alexnet");
  const RoomyMemory roomy(rings.model());
  StudyTask task = rings.task(0);
  const Outcome real = make_plan(plan_task_of(task, 12, task.link));
  task.model = &roomy;
  const Outcome lifted = make_plan(plan_task_of(task, 12, task.link));
  EXPECT_EQ(real.summary.images_per_second, lifted.summary.images_per_second);
  for (size_t d = 0; d < real.summary.devices.size(); ++d)
    EXPECT_NEAR(real.summary.devices[d].memory_fraction, lifted.summary.devices[d].memory_fraction * RoomyMemory::kTimes, 1e-9);
}

TEST(PaperPages, AreWhole) {
  std::vector<PaperRow> rows;
  for (const FpdeepFigure& figure : fpdeep_figures()) {
    PaperRow row;
    row.figure = figure;
    row.model = std::isinf(figure.most) ? figure.least : figure.most;
    row.note = "a <note>";
    row.origin = "dsp catalogue";
    row.verdict = verdict_on(figure, row.model);
    rows.push_back(row);
  }
  FpdeepReport report;
  report.rows = rows;
  report.strategies.curves.emplace_back();
  const std::string page = paper_page(report, "millrace study --paper fpdeep");
  EXPECT_EQ(well_formed(page), "");
  EXPECT_THAT(page, HasSubstr("linear up to, 150 Gb/s both directions"));
  EXPECT_THAT(page, HasSubstr("a &lt;note&gt;"));
  EXPECT_THAT(page, HasSubstr("paper contradicts itself"));
  EXPECT_THAT(page, testing::Not(HasSubstr("Where the model disagrees with the paper")));
  report.constants.assign(fpdeep_rules().begin(), fpdeep_rules().end());
  for (PaperRow& row : report.rows)
    if (row.figure.id == "rank_flops") row.verdict = verdict_on(row.figure, row.figure.least - 1);
  const std::string otherwise = paper_page(report, "millrace study --paper fpdeep");
  EXPECT_EQ(well_formed(otherwise), "");
  EXPECT_THAT(otherwise, HasSubstr("Where the model disagrees with the paper"));
  EXPECT_THAT(otherwise, HasSubstr("linear up to: a board fewer than the first ring"));
}

}  // namespace
}  // namespace millrace
