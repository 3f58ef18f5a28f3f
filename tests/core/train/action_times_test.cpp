// What actions take: measured, written, read again, refused when it is of something else.
#include "core/train/action_times.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "tests/core/train/tiny_runs.h"

namespace millrace {
namespace {

using namespace testing_support;

Plan two_devices() {
  const Graph graph(tiny_model());
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 2);
  request.mini_batch = 8;
  request.micro_batch = 4;
  const std::vector<Cut> cuts{{1, 0, 0}};
  return assemble_plan(graph, request, shards_from_cuts(graph, cuts, std::vector<Split>(graph.groups().size(), Split::kOutputChannels)));
}

// Time passes when a test says so: what is measured can be compared exactly, however busy the machine.
ActionStopwatch::Moment moment_now;

void work(double seconds) {
  moment_now.wall += seconds;
  moment_now.processor += seconds;
}

void sleep(double seconds) { moment_now.wall += seconds; }

// Mini-batches of one micro-batch on one device; every action works for 1 ms and sleeps, and between them there is work.
ActionStopwatch watched(bool of_processor, int64_t device, int64_t updates = 2, bool at_a_cost = false) {
  ActionStopwatch watch(of_processor, [] { return moment_now; });
  for (int64_t m = 0; m < updates; ++m)
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kErrorBack, ActionKind::kParameterGradient, ActionKind::kUpdate}) {
      watch.begin();
      work(0.001);
      sleep(kind == ActionKind::kErrorBack ? 0.020 : 0.005);
      watch.end(device, kind);
      work(0.002);
      watch.pause();
      sleep(0.010);
      if (at_a_cost) work(0.004);
      watch.resume(at_a_cost);
    }
  return watch;
}

// What is kept of an action is a float, of all waits a sum.
constexpr double kNear = 1e-8;

TEST(ActionTimes, TellWorkFromSleepAndLeaveWaitsOut) {
  const ActionTimes by_clock = action_times(two_devices(), {watched(false, 0).encoded(), watched(false, 1).encoded()});
  const ActionTimes by_processor = action_times(two_devices(), {watched(true, 0).encoded(), watched(true, 1).encoded()});
  for (size_t d = 0; d < 2; ++d) {
    for (const ActionTimes* times : {&by_clock, &by_processor}) {
      EXPECT_NEAR(times->devices[d].forward.wall_seconds, 0.006, kNear);
      EXPECT_NEAR(times->devices[d].error_back.wall_seconds, 0.021, kNear);
      EXPECT_EQ(times->devices[d].forward.count, 1);  // without the first mini-batch
      EXPECT_EQ(times->devices[d].update.count, 1);
      EXPECT_EQ(times->devices[d].waiting_seconds, 0);  // nobody missed what the waits took
    }
    EXPECT_NEAR(by_clock.devices[d].forward.seconds, 0.006, kNear);
    EXPECT_NEAR(by_processor.devices[d].forward.seconds, 0.001, kNear);
    EXPECT_NEAR(by_processor.devices[d].error_back.seconds, 0.001, kNear);
    // From the first update's end: five times 2 ms, over the four actions of the second mini-batch; the waits are not in it.
    EXPECT_NEAR(by_clock.devices[d].between_seconds, 0.0025, kNear);
    EXPECT_NEAR(by_processor.devices[d].between_seconds, 0.0025, kNear);
  }
}

TEST(ActionTimes, CountTheProcessorInWaitsWhereItIsMissedElsewhere) {
  for (const bool of_processor : {false, true}) {
    const ActionTimes times =
        action_times(two_devices(), {watched(of_processor, 0, 2, true).encoded(), watched(of_processor, 1, 2, true).encoded()});
    for (const DeviceActionTimes& device : times.devices) EXPECT_NEAR(device.waiting_seconds, 0.005, kNear);  // the sleep is not in it
  }
}

// The clocks themselves: only what holds on any machine, however busy.
TEST(ActionTimes, AThreadsOwnClockStandsStillWhileItSleeps) {
  const ActionStopwatch::Moment before = ActionStopwatch::of_this_thread();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const ActionStopwatch::Moment slept = ActionStopwatch::of_this_thread();
  EXPECT_GE(slept.wall - before.wall, 0.05);
  EXPECT_LT(slept.processor - before.processor, slept.wall - before.wall);
  while (ActionStopwatch::of_this_thread().processor < slept.processor + 0.01) continue;
  EXPECT_GE(ActionStopwatch::of_this_thread().wall - slept.wall, 0.005);  // the two clocks tick apart
}

TEST(ActionTimes, ComeBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  const Plan plan = two_devices();
  const ActionTimes times = action_times(plan, {watched(false, 1).encoded(), watched(false, 0).encoded()});
  save(times, folder.path() / "times.json");
  const ActionTimes again = load_action_times(folder.path() / "times.json", plan);
  EXPECT_EQ(text_of(again), text_of(times));
  EXPECT_EQ(again.devices[1].parameter_gradient.seconds, times.devices[1].parameter_gradient.seconds);
  EXPECT_EQ(again.devices[0].rank, 1);
  EXPECT_EQ(again.devices[1].rank, 0);
}

std::string refusal(const std::filesystem::path& path, const Plan& plan) {
  try {
    load_action_times(path, plan);
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.message();
  }
  return "";
}

TEST(ActionTimes, OfAnotherPlanOrDamagedAreRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "times.json";
  Plan plan = two_devices();
  const ActionTimes times = action_times(plan, {watched(false, 0).encoded(), watched(false, 1).encoded()});
  save(times, path);
  plan.mini_batch = 16;
  EXPECT_NE(refusal(path, plan).find("measured with another plan"), std::string::npos);
  plan.mini_batch = 8;
  EXPECT_EQ(refusal(path, plan), "");
  // Every part cut out or spoilt is noticed.
  const std::string text = text_of(times);
  const auto spoilt = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    write_atomically(path, changed);
    return refusal(path, plan);
  };
  EXPECT_NE(spoilt("\"index\": 1", "\"index\": 0").find("device 0 is there twice"), std::string::npos);
  EXPECT_NE(spoilt("\"index\": 1", "\"index\": 2").find("\"index\" is 2"), std::string::npos);
  EXPECT_NE(spoilt("\"forward\"", "\"backward\"").find("\"forward\" is missing"), std::string::npos);
  EXPECT_NE(spoilt("\"seconds\": ", "\"seconds\": -").find("an action takes from 0"), std::string::npos);
  EXPECT_NE(spoilt("what the actions", "what other actions").find("no file of measured times"), std::string::npos);
  write_atomically(path, text.substr(0, text.size() / 2));
  EXPECT_NE(refusal(path, plan), "");
}

TEST(ActionTimes, NeedASecondUpdate) {
  EXPECT_THROW(action_times(two_devices(), {watched(false, 0, 1).encoded(), watched(false, 1, 1).encoded()}), Error);
}

}  // namespace
}  // namespace millrace
