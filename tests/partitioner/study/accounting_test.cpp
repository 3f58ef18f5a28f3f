// What full accounting counts and FPDeep's does not, on boards whose dense layers live off chip.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "core/base/error.h"
#include "core/plan/off_chip.h"
#include "core/plan/words_outside.h"
#include "fpga/cost/fpga_resources.h"
#include "fpga/cost/generated_engines.h"
#include "partitioner/choice/planner.h"
#include "partitioner/hybrid/explain.h"
#include "tests/partitioner/study/vc709_rings.h"

namespace millrace {
namespace {

using testing_support::Vc709Rings;

PlanTask task_of(const Vc709Rings& rings, int64_t boards, Accounting accounting) {
  const StudyTask study = rings.task(0);
  PlanTask task = plan_task_of(study, boards, study.link);
  task.options.accounting = accounting;
  // An update costs two periods.
  task.mini_batch_time = [](const Plan& plan, const Graph& graph) {
    Plan steady = plan;
    steady.accounting = Accounting::kFpdeep;
    return MiniBatchTime{(static_cast<double>(plan.mini_batch) + 2) * summarize(steady, graph).seconds_per_image, "fitted"};
  };
  return task;
}

double off_chip_bytes(const Plan& plan, const Graph& graph, int64_t device) {
  double bytes = 0;
  for (const Shard& shard : plan.shards)
    if (shard.device == device) bytes += off_chip_bytes_per_sample(shard, graph.node(graph.index_of(shard.layer)), plan.micro_batch);
  return bytes;
}

TEST(Accounting, MemoryOffChipIsNeverPromisedFasterThanItIs) {
  for (const char* model : {"alexnet", "vgg16"}) {
    const Vc709Rings rings(model);
    const Outcome outcome = make_plan(task_of(rings, 15, Accounting::kFull));
    ASSERT_TRUE(outcome.feasible) << outcome.reason.text;
    const double bandwidth = off_chip_bandwidth(rings.model().inventory());
    double all = 0;
    for (int64_t d = 0; d < 15; ++d) {
      const double bytes = off_chip_bytes(*outcome.plan, rings.graph(), d);
      all += bytes;
      EXPECT_LE(bytes / outcome.summary.seconds_per_image, bandwidth * (1 + 1e-6)) << model << ", device " << d;
    }
    EXPECT_GT(all, 0) << model;
  }
}

// What --explain says of memory off chip is what the report draws.
TEST(Accounting, WordsAndFiguresOfMemoryOffChipAgree) {
  const Vc709Rings rings("vgg16");
  for (const Accounting accounting : {Accounting::kFull, Accounting::kFpdeep}) {
    const PlanTask task = task_of(rings, 15, accounting);
    const Outcome outcome = make_plan(task);
    ASSERT_TRUE(outcome.feasible);
    const std::vector<std::string> sentences = explain(task, outcome, {.planner = make_plan});
    int told = 0;
    for (int64_t d = 0; d < 15; ++d) {
      double drawn = 0;
      for (const Shard& shard : outcome.plan->shards)
        for (const NamedAmount& amount : shard.resources)
          if (shard.device == d && amount.name == "dram_bytes_per_second") drawn += amount.amount;
      for (const std::string& sentence : sentences) {
        if (!sentence.starts_with(fmt::format("device {} keeps", d))) continue;
        ++told;
        const std::string expected =
            accounting == Accounting::kFull ? fmt::format(": {:.1f} GB/s of", drawn / 1e9) : fmt::format(" {:.0f} GB/s of", drawn / 1e9);
        EXPECT_NE(sentence.find(expected), std::string::npos) << sentence << " but " << drawn;
      }
    }
    EXPECT_GT(told, 0);
  }
}

// Where weights come from it all the time, a plan is slower by the time that both take.
TEST(Accounting, SamplesThatWaitOutsideTakeTimeOfTheMemory) {
  const Vc709Rings rings("vgg11-cifar");
  PlanTask task = task_of(rings, 4, Accounting::kFull);
  const Outcome alone = make_plan(task);
  ASSERT_TRUE(alone.feasible);
  const double bytes = 0.1 * alone.summary.seconds_per_image * off_chip_bandwidth(rings.model().inventory());
  // As much on every third board.
  task.waiting_words = [bytes](const Plan& plan, const Graph&) {
    std::vector<WaitingWords> words;
    for (size_t i = 0; i < plan.shards.size(); ++i)
      if (plan.shards[i].device % 3 == 0 && (i == 0 || plan.shards[i - 1].device != plan.shards[i].device))
        words.push_back({static_cast<int64_t>(i), bytes});
    return words;
  };
  Plan late = *alone.plan;
  add_words_outside(late, rings.graph(), task.waiting_words(late, rings.graph()));
  const double both = summarize(late, rings.graph()).seconds_per_image;
  EXPECT_NEAR(both / alone.summary.seconds_per_image, 1.1, 1e-3);
  const Outcome shared = make_plan(task);
  ASSERT_TRUE(shared.feasible);
  EXPECT_LE(shared.summary.seconds_per_image, both * (1 + 1e-9));
  EXPECT_GT(shared.summary.seconds_per_image, 1.01 * alone.summary.seconds_per_image);
  // Other boards take over weights from those.
  EXPECT_LT(shared.summary.seconds_per_image, 1.07 * alone.summary.seconds_per_image);
  EXPECT_GT(shared.plan->optimality_gap, alone.plan->optimality_gap);
  StudyTask study = rings.task(0);  // whose points are such plans
  study.options = task.options;
  study.mini_batch_time = task.mini_batch_time;
  study.waiting_words = task.waiting_words;
  EXPECT_EQ(study_probe(study, 4).images_per_second, shared.summary.images_per_second);
}

// Which may begin before the planner asks for it, and changes nothing.
TEST(Accounting, ThePlanThatIsAskedAboutWasBegunBefore) {
  const Vc709Rings rings("vgg11-cifar");
  PlanTask task = task_of(rings, 15, Accounting::kFull);
  task.options.micro_batch = 1;
  const Outcome alone = make_plan(task);
  std::vector<Plan> begun, asked;
  std::vector<double> told;
  task.begin_mini_batch_time = [&](const Plan& plan, const Graph&) { begun.push_back(plan); };
  task.while_timed = [&](double samples_per_second) {
    EXPECT_EQ(begun.size(), 1U);
    EXPECT_TRUE(asked.empty());
    told.push_back(samples_per_second);
  };
  task.mini_batch_time = [&, time = task.mini_batch_time](const Plan& plan, const Graph& graph) {
    EXPECT_FALSE(begun.empty());
    asked.push_back(plan);
    return time(plan, graph);
  };
  const Outcome outcome = make_plan(task);
  ASSERT_TRUE(alone.feasible && outcome.feasible);
  EXPECT_EQ(*outcome.plan, *alone.plan);
  ASSERT_EQ(begun.size(), 1U);
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(begun.front(), asked.front());
  // And who has something else to find out was told meanwhile.
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), 1 / summarize(begun.front(), rings.graph()).seconds_per_image);
}

TEST(Accounting, TheUpdateIsInTheFiguresOfFullAccountingAlone) {
  const Vc709Rings rings("vgg11-cifar");
  const Outcome full = make_plan(task_of(rings, 15, Accounting::kFull));
  const Outcome paper = make_plan(task_of(rings, 15, Accounting::kFpdeep));
  ASSERT_TRUE(full.feasible && paper.feasible);
  EXPECT_EQ(full.plan->accounting, Accounting::kFull);
  EXPECT_EQ(full.summary.accounting, Accounting::kFull);
  EXPECT_NEAR(full.summary.images_per_second * full.summary.seconds_per_image, 128.0 / 130.0, 1e-9);
  EXPECT_NEAR(paper.summary.images_per_second * paper.summary.seconds_per_image, 1, 1e-12);
  EXPECT_GE(full.summary.lower_bound_images_per_second, full.summary.images_per_second);
  // A plan that was written says the same.
  EXPECT_EQ(summarize(parse_plan(text_of(*full.plan), "plan"), rings.graph()).images_per_second, full.summary.images_per_second);
}

TEST(Accounting, WeightsLieOnChipWhereThatIsFaster) {
  const Vc709Rings rings("lenet5");
  const auto stored = [](const Outcome& outcome) {
    double bytes = 0;
    for (const DeviceFigures& device : outcome.summary.devices) bytes += device.off_chip_bytes;
    return bytes;
  };
  for (const int64_t boards : {1, 3}) {
    const Outcome full = make_plan(task_of(rings, boards, Accounting::kFull));
    const Outcome paper = make_plan(task_of(rings, boards, Accounting::kFpdeep));
    ASSERT_TRUE(full.feasible && paper.feasible);
    EXPECT_EQ(stored(full), 0);
    EXPECT_GT(stored(paper), 0);
  }
}

TEST(Accounting, SamplesShareAPassWhereThatIsFaster) {
  const Vc709Rings rings("alexnet");
  PlanTask task = task_of(rings, 15, Accounting::kFull);
  const Outcome chosen = make_plan(task);
  task.options.micro_batch = 1;
  const Outcome alone = make_plan(task);
  ASSERT_TRUE(chosen.feasible && alone.feasible);
  EXPECT_GT(chosen.plan->micro_batch, 1);
  EXPECT_GT(chosen.summary.images_per_second, alone.summary.images_per_second);
}

TEST(Accounting, FullNeedsToKnowWhatAMiniBatchTakes) {
  const Vc709Rings rings("alexnet");
  PlanTask task = task_of(rings, 5, Accounting::kFull);
  task.mini_batch_time = {};
  EXPECT_THROW(make_plan(task), Error);
}

TEST(Accounting, ARingThatStandsStillIsNotPlanned) {
  const Vc709Rings rings("alexnet");
  PlanTask task = task_of(rings, 5, Accounting::kFull);
  task.mini_batch_time = [](const Plan&, const Graph&) -> MiniBatchTime { fail(ErrorCode::kStandstill, "it stands still"); };
  const Outcome outcome = make_plan(task);
  EXPECT_FALSE(outcome.feasible);
  EXPECT_EQ(outcome.reason.text, "it stands still");
  // What cannot be simulated for another reason says nothing about the ring.
  task.mini_batch_time = [](const Plan&, const Graph&) -> MiniBatchTime { fail(ErrorCode::kMismatch, "it takes years"); };
  try {
    make_plan(task);
    ADD_FAILURE() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_STREQ(error.what(), "it takes years");
  }
}

// Boards with UltraRAM have two kinds of blocks: where a plan may not find its own, a study asks as a plan does.
TEST(Accounting, StudiesAskWhetherBlocksAreFound) {
  constexpr int64_t kBoards = 10;
  const Vc709Rings rings("vgg16");
  const Arithmetic arithmetic{ElementType::kFixed16, ElementType::kFixed16};
  const CatalogueDevice& board = rings.catalogue().find("u280");
  const auto engines = std::make_shared<const GeneratedEngines>(rings.graph(), static_cast<double>(fpga_resources_of(board, 16).clock_hz));
  const std::unique_ptr<CostModel> model = make_fpga_cost_model(board, arithmetic, {}, engines);
  StudyTask task = rings.task(0);
  task.device = "u280";
  task.model = model.get();
  task.options.accounting = Accounting::kFull;
  task.mini_batch_time = task_of(rings, 1, Accounting::kFull).mini_batch_time;
  std::atomic<int> asked = 0;
  bool found = true;
  task.finds_blocks = [&](const Plan& plan, const Graph&, bool) {
    EXPECT_EQ(plan.devices(), kBoards);
    ++asked;
    return found;
  };
  const StudyPoint point = study_probe(task, kBoards);
  ASSERT_TRUE(point.feasible);
  EXPECT_GT(asked, 0);
  // Then with longer periods, as long as none find theirs.
  found = false;
  const StudyPoint without = study_probe(task, kBoards);
  EXPECT_LT(without.feasible ? without.images_per_second : 0, point.images_per_second);
}

}  // namespace
}  // namespace millrace
