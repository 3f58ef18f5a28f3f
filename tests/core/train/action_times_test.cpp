// What actions take: measured, written, read again, refused when it is of something else.
#include "core/train/action_times.h"

#include <gtest/gtest.h>

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

void work(std::chrono::milliseconds duration) {
  const auto until = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < until) continue;
}

// Two mini-batches of one micro-batch on one device; every action sleeps, and between them there is work.
ActionStopwatch watched(bool of_processor, int64_t device, int64_t updates = 2, bool at_a_cost = false) {
  ActionStopwatch watch(of_processor);
  for (int64_t m = 0; m < updates; ++m)
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kErrorBack, ActionKind::kParameterGradient, ActionKind::kUpdate}) {
      watch.begin();
      std::this_thread::sleep_for(std::chrono::milliseconds(kind == ActionKind::kErrorBack ? 20 : 5));
      watch.end(device, kind);
      work(std::chrono::milliseconds(2));
      watch.pause();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (at_a_cost) work(std::chrono::milliseconds(4));
      watch.resume(at_a_cost);
    }
  return watch;
}

TEST(ActionTimes, TellWorkFromSleepAndLeaveWaitsOut) {
  const ActionTimes by_clock = action_times(two_devices(), {watched(false, 0).encoded(), watched(false, 1).encoded()});
  const ActionTimes by_processor = action_times(two_devices(), {watched(true, 0).encoded(), watched(true, 1).encoded()});
  for (size_t d = 0; d < 2; ++d) {
    EXPECT_GE(by_clock.devices[d].forward.seconds, 0.005);
    EXPECT_GE(by_clock.devices[d].error_back.seconds, 0.020);
    EXPECT_EQ(by_clock.devices[d].forward.seconds, by_clock.devices[d].forward.wall_seconds);
    EXPECT_LT(by_processor.devices[d].error_back.seconds, 0.005);  // slept, all of it
    EXPECT_GE(by_processor.devices[d].error_back.wall_seconds, 0.020);
    EXPECT_GT(by_processor.devices[d].between_seconds, 0.0002);  // worked, as far as there was a core
    EXPECT_LT(by_processor.devices[d].between_seconds, 0.0045);  // the wait is not in it
    EXPECT_EQ(by_clock.devices[d].update.count, 1);              // without the first mini-batch
    EXPECT_EQ(by_processor.devices[d].waiting_seconds, 0);       // and nobody missed what it took
  }
}

TEST(ActionTimes, CountTheProcessorInWaitsWhereItIsMissedElsewhere) {
  for (const bool of_processor : {false, true}) {
    const ActionTimes times =
        action_times(two_devices(), {watched(of_processor, 0, 2, true).encoded(), watched(of_processor, 1, 2, true).encoded()});
    for (const DeviceActionTimes& device : times.devices) {
      EXPECT_GT(device.waiting_seconds, 0.0004);  // worked 4 ms, as far as there was a core
      EXPECT_LT(device.waiting_seconds, 0.0085);  // and slept 10
    }
  }
}

TEST(ActionTimes, ComeBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  const Plan plan = two_devices();
  const ActionTimes times = action_times(plan, {watched(false, 1).encoded(), watched(false, 0).encoded()});
  save(times, folder.path() / "times.json");
  const ActionTimes again = load_action_times(folder.path() / "times.json", plan);
  EXPECT_EQ(text_of(again), text_of(times));
  EXPECT_EQ(again.devices[1].parameter_gradient.seconds, times.devices[1].parameter_gradient.seconds);
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
