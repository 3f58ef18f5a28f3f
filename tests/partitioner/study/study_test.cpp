#include "partitioner/study/study.h"

#include <gmock/gmock.h>

#include "core/base/error.h"
#include "partitioner/choice/planner.h"
#include "partitioner/study/study_page.h"
#include "tests/core/drawing/well_formed.h"
#include "tests/partitioner/study/vc709_rings.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::count_of;
using testing_support::Vc709Rings;
using testing_support::well_formed;

void expect_same(const Study& a, const Study& b) {
  EXPECT_EQ(a.linear_up_to, b.linear_up_to);
  ASSERT_EQ(a.points.size(), b.points.size());
  for (size_t i = 0; i < a.points.size(); ++i) {
    EXPECT_EQ(a.points[i].devices, b.points[i].devices);
    EXPECT_EQ(a.points[i].feasible, b.points[i].feasible);
    EXPECT_EQ(a.points[i].images_per_second, b.points[i].images_per_second);
    EXPECT_EQ(a.points[i].max_link_gbps_both, b.points[i].max_link_gbps_both);
    EXPECT_EQ(a.points[i].idle_fraction, b.points[i].idle_fraction);
  }
}

TEST(Studies, PointsArePlans) {
  const Vc709Rings rings("alexnet");
  StudyTask task = rings.task(150);
  task.counts = {4, 9, 90};
  const Study study = run_study(task);
  ASSERT_EQ(study.points.size(), 3u);
  for (const StudyPoint& point : study.points) {
    const PlanSummary within = make_plan(plan_task_of(task, point.devices, task.link)).summary;
    const PlanSummary alone = make_plan(plan_task_of(task, point.devices, {1e6, 1e6, 0, 0.5})).summary;
    EXPECT_TRUE(point.feasible);
    EXPECT_NEAR(point.images_per_second, within.images_per_second, 1e-9 * within.images_per_second);
    EXPECT_EQ(point.full_speed_images_per_second, alone.images_per_second);
    EXPECT_NEAR(point.hours_per_epoch, 1281167 / point.images_per_second / 3600, 1e-12);
    EXPECT_LE(point.max_link_gbps_both, 150 * (1 + 1e-9));
    EXPECT_LE(point.max_link_gbps, point.max_link_gbps_both);
  }
  EXPECT_EQ(study.points[0].images_per_second, study.points[0].full_speed_images_per_second);
  EXPECT_LT(study.points[2].images_per_second, 0.95 * study.points[2].full_speed_images_per_second);
  EXPECT_EQ(study.points[2].bottleneck.kind, "link");
}

TEST(Studies, TheRoofOfTheLinksIsNeverBelowTheRing) {
  const Vc709Rings rings("vgg16");
  StudyTask task = rings.task(20);
  task.counts = {20, 60};
  for (const StudyPoint& point : run_study(task).points) {
    EXPECT_LT(point.images_per_second, 0.99 * point.full_speed_images_per_second);
    EXPECT_GE(point.link_roof_images_per_second, point.images_per_second * (1 - 1e-9));
  }
}

TEST(Studies, EpochsAreOfImagesAlone) {
  const Vc709Rings rings("alexnet");
  StudyTask task = rings.task(150);
  task.counts = {9};
  task.epoch_images = 0;
  StudySweep sweep;
  sweep.curves.push_back({task, run_study(task)});
  EXPECT_EQ(sweep.curves[0].study.points[0].hours_per_epoch, 0);
  const std::string page = study_page(sweep, "");
  EXPECT_THAT(page, Not(HasSubstr("Epochs per hour")));
  EXPECT_THAT(page, HasSubstr("images/s"));
}

TEST(Studies, TheLinearLimitIsTheFirstRingThatItsLinksSlowDown) {
  const Vc709Rings rings("alexnet");
  for (const double gbps : {6.0, 11.0, 24.0, 60.0}) {
    StudyTask task = rings.task(gbps);
    int64_t expected = 40;
    for (int64_t devices = 5; devices <= 40; ++devices) {
      const double alone = make_plan(plan_task_of(task, devices, {1e6, 1e6, 0, 0.5})).summary.images_per_second;
      const double within = make_plan(plan_task_of(task, devices, task.link)).summary.images_per_second;
      if (within >= alone * (1 - kLinearTolerance)) continue;
      expected = devices - 1;
      break;
    }
    if (expected < 5) expected = 0;
    for (const char* counts : {"5:40", "5:40:5", "5,40"}) {
      task.counts = parse_counts(counts);
      const Study study = run_study(task);
      EXPECT_EQ(study.linear_up_to, expected) << gbps << " Gb/s, " << counts;
      EXPECT_EQ(study.first_slowed, expected == 40 ? 0 : std::max<int64_t>(expected + 1, 5)) << gbps << " Gb/s, " << counts;
    }
  }
}

TEST(Studies, DoNotDependOnThreads) {
  const Vc709Rings rings("alexnet");
  StudyTask task = rings.task(100);
  task.counts = parse_counts("5:65:12");
  task.threads = 1;
  const Study alone = run_study(task);
  task.threads = 5;
  expect_same(run_study(task), alone);
}

TEST(Studies, TellHowFarTheyAre) {
  const Vc709Rings rings("lenet5");
  StudyTask task = rings.task(0);
  task.counts = {2, 9};
  task.threads = 3;
  int64_t before = 0;
  run_study(task, [&](int64_t done, int64_t of) {
    EXPECT_EQ(of, 8);
    EXPECT_GE(done, before);
    EXPECT_LE(done, of);
    before = done;
  });
  EXPECT_EQ(before, 8);
}

// Four are few to plan, yet enough: between them and fifteen lie the rings that take longest.
TEST(Studies, SayWhatDoesNotFit) {
  const Vc709Rings rings("vgg16");
  StudyTask task = rings.task(150);
  task.counts = {3, 4};
  const Study study = run_study(task);
  EXPECT_FALSE(study.points[0].feasible);
  EXPECT_THAT(study.points[0].reason, HasSubstr("Mb of on-chip memory"));
  EXPECT_TRUE(study.points[1].feasible);
  EXPECT_EQ(study.linear_up_to, 4);
  task.counts = {1, 3};
  EXPECT_EQ(run_study(task).linear_up_to, 0);
}

TEST(Studies, TheLinearLimitIsFeasible) {
  const Vc709Rings rings("vgg16");
  StudyTask task = rings.task(0);
  task.options.strategy = Strategy::kLayer;
  task.options.fpdeep_lifetimes = true;
  task.counts = {11, 20};
  const Study study = run_study(task);
  EXPECT_EQ(study.linear_up_to, 16);  // layers
  EXPECT_EQ(study.first_slowed, 0);
}

TEST(Studies, CompareClosedForms) {
  const Vc709Rings rings("vgg16");
  StudyTask task = rings.task(150);
  task.options.strategy = Strategy::kData;
  task.counts = {1, 8, 200};
  const Study study = run_study(task);
  EXPECT_TRUE(study.points[0].feasible);
  EXPECT_LT(study.points[1].images_per_second, study.points[1].full_speed_images_per_second);
  EXPECT_FALSE(study.points[2].feasible);  // of a mini-batch of 128
  EXPECT_EQ(study.linear_up_to, 1);        // two devices exchange gradients already
}

TEST(Studies, RefuseEmptyOnes) {
  const Vc709Rings rings("lenet5");
  StudyTask task = rings.task(0);
  EXPECT_THROW(run_study(task), Error);
  task.counts = {2};
  task.epoch_images = -1;
  EXPECT_THROW(run_study(task), Error);
}

TEST(StudyPages, AreWholeAndNameWhatTheyShow) {
  const Vc709Rings rings("vgg16");
  StudyTask task = rings.task(60);
  task.counts = {2, 10, 20, 40};
  const Study study = run_study(task);
  const std::string page = study_page({.curves = {{task, study}}, .wirings = {}, .failures = {}}, "millrace study --model <vgg16>");
  EXPECT_EQ(well_formed(page), "");
  EXPECT_THAT(page, HasSubstr("vgg16 on rings of vc709"));
  EXPECT_THAT(page, HasSubstr("&lt;vgg16&gt;"));
  EXPECT_THAT(page, HasSubstr("2 devices: device 1"));
  EXPECT_THAT(page, HasSubstr("of the engines&#39; capacity, mean over the devices (simulated: of their time, waiting)"));
  EXPECT_THAT(page, Not(HasSubstr("engines&#39; time")));
  EXPECT_THAT(page, HasSubstr(fmt::format("Linear up to {} devices; with {}, the links", study.linear_up_to, study.first_slowed)));
  EXPECT_THAT(page, Not(HasSubstr(">nan")));
  EXPECT_EQ(count_of(page, "<svg"), count_of(page, "</svg>"));
}

TEST(StudyPages, ShowStudiesWithoutASinglePoint) {
  const Vc709Rings rings("vgg19");
  StudyTask task = rings.task(60);
  task.options.fc_barrier = true;  // whole samples wait for the dense layers
  task.counts = {1, 2, 3, 4, 5};
  const std::string page = study_page({.curves = {{task, run_study(task)}}, .wirings = {}, .failures = {}}, "");
  EXPECT_EQ(well_formed(page), "");
  EXPECT_THAT(page, HasSubstr("No ring of this size holds the model."));
  EXPECT_THAT(page, HasSubstr("2 more rings are infeasible."));
}

}  // namespace
}  // namespace millrace
