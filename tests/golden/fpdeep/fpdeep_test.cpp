// Figures of FPDeep's text against plans of boards that are not quite the VC709: they leave their tolerances. That all of them
// hold on the shipped one is command_test.py.
#include <gtest/gtest.h>

#include "core/graph/zoo.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "fpga/cost/fpga_cost_model.h"
#include "partitioner/study/fpdeep_study.h"

namespace millrace {
namespace {

constexpr Arithmetic k16{ElementType::kFixed16, ElementType::kFixed16};

CatalogueDevice vc709() { return parse_catalogue(fpga_catalogue_text(), "the boards").find("vc709"); }

CatalogueDevice with(CatalogueDevice board, std::string_view name, double value) {
  for (CatalogueValue& entry : board.values)
    if (entry.name == name) entry.value = value;
  return board;
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
