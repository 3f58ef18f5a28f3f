#include <gmock/gmock.h>

#include "core/base/error.h"
#include "core/cpu/cpu_catalogue.h"
#include "core/graph/zoo.h"
#include "core/plan/rings_side_by_side.h"
#include "core/plan/validate.h"
#include "partitioner/choice/choose.h"
#include "partitioner/choice/planner.h"

namespace millrace {
namespace {

constexpr double kAgreement = 1e-4;  // seconds that each replica adds to an update

class Choosing : public testing::Test {
 protected:
  // `devices`: f of a fast processor, s of one that is a thousand times as slow.
  PlanTask task_of(const std::string& devices, Alignment alignment = Alignment::kFpdeep) const {
    PlanTask task;
    task.graph = &graph_;
    task.cluster = uniform_cluster("cpu", static_cast<int64_t>(devices.size()));
    for (size_t d = 0; d < devices.size(); ++d) {
      task.models.push_back(devices[d] == 'f' ? fast_.get() : slow_.get());
      task.cluster.devices[d].device = task.models.back()->device();
    }
    task.options.mini_batch = 64;
    task.options.alignment = alignment;
    task.options.accounting = Accounting::kFull;
    // All that is in flight waits at an update.
    task.replicated_mini_batch_time = [](const Plan& plan, const Graph& graph, int64_t replicas) {
      Plan steady = plan;
      steady.accounting = Accounting::kFpdeep;
      steady.alignment = Alignment::kFpdeep;
      const auto samples = static_cast<double>(plan.mini_batch + (plan.windows.front() - 1) * plan.micro_batch);
      return MiniBatchTime{samples * summarize(steady, graph).seconds_per_image + kAgreement * static_cast<double>(replicas - 1), "fitted"};
    };
    task.mini_batch_time = [time = task.replicated_mini_batch_time](const Plan& plan, const Graph& graph) { return time(plan, graph, 1); };
    return task;
  }

  static double rate_of(const PlanTask& task, const Freedom& freedom = {}) {
    const ChosenPlan chosen = choose_plan(task, freedom);
    EXPECT_TRUE(chosen.outcome.feasible) << chosen.outcome.reason.text;
    return chosen.outcome.summary.images_per_second;
  }

  // Of the devices that compute something.
  static std::string busy(const Outcome& outcome) {
    std::string text;
    for (const DeviceFigures& device : outcome.summary.devices) text += device.shards.empty() ? '-' : device.device.front();
    return text;
  }

  static std::unique_ptr<CostModel> processor(const char* name, double slower) {
    CpuProfile profile;
    profile.macs_per_second /= slower;
    profile.bytes_per_second /= slower;
    profile.launch_seconds *= slower;
    CatalogueDevice device = catalogue_device_of(profile);
    device.short_names = {name};
    return make_cpu_cost_model(device);
  }

  const Graph graph_{zoo_model("lenet5")};
  const std::unique_ptr<CostModel> fast_ = processor("fast", 1);
  const std::unique_ptr<CostModel> slow_ = processor("slow", 1000);
};

TEST_F(Choosing, ADeviceMoreIsNeverSlower) {
  for (const Alignment alignment :
       {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash, Alignment::kZeroBubble}) {
    double before = 0;
    double planned_once = 0;
    bool fell = false;
    for (const char* devices : {"f", "ff", "fff", "ffff", "fffff", "ffffff", "fffffff"}) {
      const PlanTask task = task_of(devices, alignment);
      const double rate = rate_of(task);
      EXPECT_GE(rate, before * (1 - 1e-9)) << name_of(alignment) << " " << devices;
      before = rate;
      const double once = make_plan(task).summary.images_per_second;
      fell = fell || once < planned_once;
      planned_once = once;
    }
    EXPECT_TRUE(fell || drains(alignment)) << "nothing had to be chosen under " << name_of(alignment);
  }
}

TEST_F(Choosing, ASlowDeviceStaysWithoutWorkWhereverItStands) {
  const double alone = rate_of(task_of("ffff"));
  for (const char* devices : {"ffffs", "sffff", "ffsff", "fsfff"}) {
    const PlanTask task = task_of(devices);
    const ChosenPlan chosen = choose_plan(task, {});
    ASSERT_TRUE(chosen.outcome.plan) << devices;
    EXPECT_THAT(busy(chosen.outcome), testing::Not(testing::HasSubstr("s"))) << devices;
    EXPECT_NEAR(chosen.outcome.summary.images_per_second, alone, 1e-6 * alone) << devices;
    EXPECT_EQ(chosen.outcome.plan->cluster, task.cluster);
    EXPECT_NO_THROW(validate(*chosen.outcome.plan, graph_, devices));
    EXPECT_EQ(choose_plan(task, {}).outcome.plan, chosen.outcome.plan) << "not the same twice";
  }
}

// What all devices make between updates bounds no plan that was chosen because they lose it at every update.
TEST_F(Choosing, APlanThatIsSlowerBetweenUpdatesHasNoGap) {
  PlanTask task = task_of("fff");
  task.options.micro_batch = 8;
  const ChosenPlan all = choose_plan(task, {.leave_empty = false});
  EXPECT_EQ(all.outcome.summary.faster_between_updates, 0);
  EXPECT_EQ(no_gap_text(all.outcome.summary, "images"), "");
  const auto with_updates = task.mini_batch_time;
  task.mini_batch_time = [=](const Plan& plan, const Graph& graph) {
    MiniBatchTime time = with_updates(plan, graph);
    int64_t last = 0;
    for (const Shard& shard : plan.shards) last = std::max(last, shard.device);
    time.seconds += static_cast<double>(last);
    return time;
  };
  const ChosenPlan chosen = choose_plan(task, {});
  ASSERT_EQ(busy(chosen.outcome), "f--");
  const double between = 1 / all.outcome.summary.seconds_per_image;
  EXPECT_GT(between * chosen.outcome.summary.seconds_per_image, 1.1);
  EXPECT_DOUBLE_EQ(chosen.outcome.summary.faster_between_updates, between);
  EXPECT_EQ(summarize(*chosen.outcome.plan, graph_).faster_between_updates, chosen.outcome.summary.faster_between_updates);
  EXPECT_THAT(no_gap_text(chosen.outcome.summary, "images"), testing::HasSubstr("chosen by whole mini-batches; another plan makes"));
}

TEST_F(Choosing, WithoutTheFreedomToLeaveDevicesOutTheRingIsPlannedOnce) {
  const PlanTask task = task_of("ffffffff");
  EXPECT_EQ(choose_plan(task, {.leave_empty = false}).outcome.plan, make_plan(task).plan);
  PlanTask pinned = task;
  pinned.options.pins = {{"conv1", 0}};
  EXPECT_EQ(choose_plan(pinned, {}).outcome.plan, make_plan(pinned).plan);
}

TEST_F(Choosing, AStatedMicroBatchIsKept) {
  for (const int64_t size : {1, 4, 16}) {
    PlanTask task = task_of("ffff");
    task.options.micro_batch = size;
    const ChosenPlan chosen = choose_plan(task, {});
    EXPECT_EQ(chosen.outcome.plan->micro_batch, size);
    for (const Choice& choice : chosen.outcome.choices) EXPECT_NE(choice.what, "micro-batch");
    EXPECT_LE(chosen.outcome.summary.images_per_second, rate_of(task_of("ffff")) * (1 + 1e-9));
  }
}

TEST_F(Choosing, TheBestOrderIsThatOfPlanningThemAll) {
  PlanTask task = task_of("sffs");
  task.cluster.links[0].forward_gbps = 1e-3;  // the first link is slow
  Freedom freedom;
  double best = rate_of(task);
  for (const std::vector<int64_t>& order : orders_of_kinds(task.cluster)) {
    PlanTask other = task;
    for (size_t d = 0; d < order.size(); ++d) {
      other.cluster.devices[d] = task.cluster.devices[static_cast<size_t>(order[d])];
      other.models[d] = task.models[static_cast<size_t>(order[d])];
    }
    freedom.orders.push_back({"another", other.cluster, other.models});
    best = std::max(best, rate_of(other));
  }
  EXPECT_EQ(freedom.orders.size(), 2U);
  EXPECT_NEAR(rate_of(task, freedom), best, 1e-9 * best);
  EXPECT_GT(best, rate_of(task) * 1.01) << "the given order was the best anyway";
}

TEST_F(Choosing, ReplicasShareTheMiniBatch) {
  const PlanTask task = task_of("ffff");
  const ChosenPlan two = choose_plan(task, {.leave_empty = false, .replicas = {2}});
  ASSERT_TRUE(two.outcome.plan);
  EXPECT_EQ(two.outcome.replicas, 2);
  EXPECT_EQ(two.outcome.plan->mini_batch, 32);
  EXPECT_EQ(two.outcome.plan->devices(), 2);
  EXPECT_NEAR(two.outcome.summary.images_per_second, 64 / two.outcome.summary.mini_batch_seconds, 1e-6);
  double best = 0;
  for (const int64_t count : {1, 2, 4}) best = std::max(best, rate_of(task, {.replicas = {count}}));
  EXPECT_NEAR(rate_of(task, {.replicas = {1, 2, 3, 4}}), best, 1e-9 * best);
  // Rings that are not alike, or a mini-batch that they cannot share.
  EXPECT_THROW(choose_plan(task_of("ffffs"), {.replicas = {2}}), Error);
  EXPECT_THROW(choose_plan(task_of("ffsf"), {.replicas = {2}}), Error);
  EXPECT_THROW(choose_plan(task_of("fff"), {.replicas = {3}}), Error);
}

TEST_F(Choosing, FewerMicroBatchesThanDevicesAreTriedWhereARingDrains) {
  PlanTask task = task_of("fffffffff", Alignment::kFlush);
  const double chosen = rate_of(task, {.leave_empty = false});
  for (const int64_t size : {1, 2, 4, 8, 16, 32}) {
    PlanTask stated = task;
    stated.options.micro_batch = size;
    EXPECT_GE(chosen, rate_of(stated, {.leave_empty = false}) * (1 - 1e-6)) << size;
  }
}

TEST_F(Choosing, RingsSideBySideAreChosenUnaskedAndADeviceMoreIsNeverSlower) {
  for (const Alignment alignment : {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward}) {
    double before = 0;
    bool several = false;
    for (const char* devices : {"f", "ff", "fff", "ffff", "fffff", "ffffff", "fffffff", "fffffffs"}) {
      const PlanTask task = task_of(devices, alignment);
      const Freedom freedom = usual_freedom(task);
      const ChosenPlan chosen = choose_plan(task, freedom);
      ASSERT_TRUE(chosen.outcome.plan) << devices;
      const double rate = chosen.outcome.summary.images_per_second;
      EXPECT_GE(rate, before * (1 - 1e-9)) << name_of(alignment) << " " << devices;
      before = rate;
      several = several || chosen.outcome.replicas > 1;
      EXPECT_EQ(rings_side_by_side(*chosen.outcome.plan), chosen.outcome.replicas) << devices;
      EXPECT_EQ(chosen.outcome.plan->mini_batch * chosen.outcome.replicas, 64) << devices;
      const bool alike = task.models.back() == task.models.front();
      for (const int64_t count : freedom.replicas) {
        if (count == std::ssize(task.models) && !alike) continue;  // no like rings
        const Freedom one{.replicas = {count}, .leave_over = true};
        EXPECT_GE(rate, rate_of(task, one) * (1 - 2e-6)) << devices << " as " << count << " rings";
      }
    }
    EXPECT_TRUE(several) << name_of(alignment);
  }
  // Five devices make no two like rings of all; one is left over.
  const ChosenPlan two = choose_plan(task_of("fffff"), {.replicas = {2}, .leave_over = true});
  EXPECT_EQ(two.outcome.plan->devices(), 2);
  const auto idle = std::ranges::find(two.outcome.choices, "devices without work", &Choice::what);
  ASSERT_NE(idle, two.outcome.choices.end());
  EXPECT_THAT(idle->chosen, testing::EndsWith("4 (fast)"));
  PlanTask pinned = task_of("ffff");
  pinned.options.pins = {{"conv1", 0}};
  PlanTask paper = task_of("ffff");
  paper.options.accounting = Accounting::kFpdeep;
  for (const PlanTask& task : {pinned, paper}) EXPECT_EQ(usual_freedom(task).replicas, std::vector<int64_t>{1});
}

TEST_F(Choosing, TheNextBestIsWhatAPlanWithItGives) {
  const PlanTask task = task_of("ffff");
  const ChosenPlan chosen = choose_plan(task, {.next_best = true});
  const auto micro_batch = std::ranges::find(chosen.outcome.choices, "micro-batch", &Choice::what);
  ASSERT_NE(micro_batch, chosen.outcome.choices.end());
  EXPECT_EQ(micro_batch->chosen, std::to_string(chosen.outcome.plan->micro_batch));
  double best = 0;
  for (int64_t size = 1; size <= 64; size *= 2) {
    PlanTask other = task;
    other.options.micro_batch = size;
    if (size != chosen.outcome.plan->micro_batch) best = std::max(best, rate_of(other));
  }
  EXPECT_NEAR(micro_batch->samples_per_second, best, 1e-9 * best);
  EXPECT_LE(best, chosen.outcome.summary.images_per_second * (1 + 1e-9));
}

}  // namespace
}  // namespace millrace
