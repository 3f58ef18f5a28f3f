// Every figure of FPDeep's text against the plans of the shipped VC709: fails when one leaves its tolerance, and shows
// that a board of other constants would.
#include <gmock/gmock.h>

#include <set>

#include "core/graph/zoo.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "fpga/cost/fpga_cost_model.h"
#include "partitioner/study/fpdeep_study.h"
#include "partitioner/study/paper_page.h"

namespace millrace {
namespace {

constexpr Arithmetic k16{ElementType::kFixed16, ElementType::kFixed16};

CatalogueDevice vc709() { return parse_catalogue(fpga_catalogue_text(), "the boards").find("vc709"); }

CatalogueDevice with(CatalogueDevice board, std::string_view name, double value) {
  for (CatalogueValue& entry : board.values)
    if (entry.name == name) entry.value = value;
  return board;
}

std::vector<PaperRow> rows_on(const CatalogueDevice& board) {
  const auto bits_16 = make_fpga_cost_model(board, k16);
  const auto bits_32 = make_fpga_cost_model(board, {});
  return fpdeep_rows({.bits_16 = bits_16.get(), .bits_32 = bits_32.get(), .board = board, .simulate = {}});
}

std::set<std::string> ids_with(const std::vector<PaperRow>& rows, Verdict verdict) {
  std::set<std::string> ids;
  for (const PaperRow& row : rows)
    if (row.verdict == verdict) ids.insert(std::string(row.figure.id));
  return ids;
}

TEST(Fpdeep, EveryFigureOfThePaperIsReproduced) {
  const std::vector<PaperRow> rows = rows_on(vc709());
  ASSERT_EQ(rows.size(), fpdeep_figures().size());
  for (const PaperRow& row : rows)
    EXPECT_NE(row.verdict, Verdict::kNotReproduced) << row.figure.quantity << ", " << row.figure.network << ": " << row.model
                                                    << ", accepted " << accepted_text(row.figure) << "; " << row.note;
  EXPECT_THAT(ids_with(rows, Verdict::kPaperContradictsItself),
              testing::UnorderedElementsAre("hours", "memory_32", "on_chip_32", "memory_5", "linear_250"));
  for (const PaperRow& row : rows) {
    EXPECT_FALSE(row.origin.empty());
    if (row.figure.id != "on_chip_32") continue;
    EXPECT_THAT(row.note, testing::HasSubstr("Mb of on-chip memory"));  // the bits missing
    EXPECT_THAT(row.note, testing::HasSubstr("device "));
  }
}

// One set of constants serves all rows: a slower clock or a smaller memory leaves the tolerances.
TEST(Fpdeep, ABoardOfOtherConstantsIsTold) {
  const Graph graph(zoo_model("vgg16"));
  const auto fifteen = [&](const CatalogueDevice& board) {
    const auto model = make_fpga_cost_model(board, k16);
    StudyTask task;
    task.graph = &graph;
    task.device = "vc709";
    task.model = model.get();
    task.link = {150, 150, 150, 0.5};
    task.options.optimizer.kind = OptimizerKind::kSgd;
    task.options.arithmetic = k16;
    return study_point(task, 15);
  };
  const auto verdict = [](std::string_view id, double value) {
    for (const FpdeepFigure& figure : fpdeep_figures())
      if (figure.id == id && figure.network == "vgg16") return verdict_on(figure, value);
    return Verdict::kReported;
  };
  const StudyPoint point = fifteen(vc709());
  EXPECT_EQ(verdict("gops", point.gops_per_device), Verdict::kHolds);
  EXPECT_EQ(verdict("hours_scaled", point.hours_per_epoch / 0.82), Verdict::kHolds);
  EXPECT_EQ(verdict("bram_balanced", 100 * point.memory_fraction), Verdict::kHolds);
  const StudyPoint slower = fifteen(with(vc709(), "clock_hz", 185e6));
  EXPECT_EQ(verdict("gops", slower.gops_per_device), Verdict::kNotReproduced);
  EXPECT_EQ(verdict("hours_scaled", slower.hours_per_epoch / 0.82), Verdict::kNotReproduced);
  const StudyPoint smaller = fifteen(with(vc709(), "bram36", 1250));
  EXPECT_EQ(verdict("bram_balanced", 100 * smaller.memory_fraction), Verdict::kNotReproduced);
  EXPECT_EQ(verdict("gops", smaller.gops_per_device), Verdict::kHolds);
}

}  // namespace
}  // namespace millrace
