// The simulator's parts against brute force: which rows wait for which, whose turn it is, what ranks send each other, pages and
// traces.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/error.h"
#include "core/graph/row_needs.h"
#include "core/graph/zoo.h"
#include "node/simulate/findings.h"
#include "node/simulate/pack.h"
#include "node/simulate/simulation_page.h"
#include "node/simulate/timeline.h"
#include "node/simulate/trace.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace {
namespace {

using namespace simulation;
using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Kernel {
  int64_t kernel, stride, pad, height;
};

Graph graph_of(const Kernel& k) {
  ModelBuilder net("one", {2, k.height, 1});
  net.layer("conv", Conv2d{.out_channels = 3, .kernel_h = k.kernel, .kernel_w = 1, .stride_h = k.stride, .pad_h = k.pad});
  return Graph(net.finish());
}

// Output row r reads input row h when some tap of the kernel lies there.
bool reads(const Kernel& k, int64_t r, int64_t h) { return h >= r * k.stride - k.pad && h < r * k.stride - k.pad + k.kernel; }

TEST(RowNeeds, FollowTheKernelsTaps) {
  std::mt19937_64 generator(7);
  const auto between = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator); };
  for (int i = 0; i < 300; ++i) {
    Kernel k{between(1, 5), between(1, 3), 0, between(6, 20)};
    k.pad = between(0, k.kernel - 1);
    const Graph graph = graph_of(k);
    const RowCounts rows(graph, false);
    const int64_t out = graph.node(0).output.height;
    SCOPED_TRACE(fmt::format("kernel {} stride {} pad {} height {}", k.kernel, k.stride, k.pad, k.height));
    const RowTable forward = forward_needs(rows, 0, 0);
    const RowTable back = backward_needs(rows, 0, 0);
    const RowTable released = released_rows(rows, 0, false);
    for (int64_t r = 0; r < out; ++r) {
      int64_t last = 0;
      for (int64_t h = 0; h < k.height; ++h)
        if (reads(k, r, h)) last = h;
      EXPECT_EQ(forward[static_cast<size_t>(r)], last + 1);
      // Once row r is walked past, nobody reads the rows that are let go.
      for (int64_t later = r + 1; later < out; ++later)
        for (int64_t h = 0; h < released[static_cast<size_t>(r)]; ++h) EXPECT_FALSE(reads(k, later, h));
    }
    EXPECT_EQ(released.back(), k.height);
    for (int64_t h = 0; h < k.height; ++h)
      for (int64_t r = 0; r < out; ++r)
        if (reads(k, r, h)) {
          EXPECT_LE(r + 1, back[static_cast<size_t>(h)]);
        }
  }
}

TEST(RowNeeds, GoThroughPoolingAndIntoDenseLayers) {
  ModelBuilder net("pooled", {1, 8, 8});
  net.conv("conv", 2, {.kernel = 3, .pad = 1});
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.flatten("flatten");
  net.dense("fc", 5);
  const Graph graph(net.finish());
  const RowCounts streaming(graph, false);
  const RowCounts waiting(graph, true);
  const int64_t fc = graph.index_of("fc");
  const int64_t pool = graph.index_of("pool");
  EXPECT_EQ(streaming.of(fc), 4);
  EXPECT_EQ(waiting.of(fc), 1);
  EXPECT_THAT(compose(forward_needs(streaming, graph.index_of("flatten"), 0), forward_needs(streaming, pool, 0)), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(forward_needs(waiting, graph.index_of("flatten"), 0), ElementsAre(4));
  EXPECT_THAT(backward_needs(streaming, pool, 0), ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
}

TEST(RowNeeds, ErrorsOfRecurrentNetworksWalkFromTheLastRow) {
  const Graph graph(zoo_model("char-rnn"));
  const RowCounts rows(graph, false);
  EXPECT_TRUE(rows.errors_descend());
  const RowTable turn = turning_needs(rows, graph.loss());
  EXPECT_EQ(turn.front(), rows.of(graph.loss())) << "no error before the whole sequence went forward";
}

TEST(Tournament, KnowsTheEarliestAndEverybodyBeforeATime) {
  std::mt19937_64 generator(3);
  for (const size_t count : {size_t{1}, size_t{2}, size_t{8}, size_t{9}, size_t{64}, size_t{65}, size_t{700}}) {
    std::vector<Tournament::Group> groups(Tournament::groups_for(count));
    Tournament tournament(groups.data(), count);
    std::vector<int64_t> times(count, kNeverTime);
    EXPECT_EQ(tournament.first_time(), kNeverTime);
    for (int i = 0; i < 3000; ++i) {
      const size_t player = generator() % count;
      const int64_t time = generator() % 5 == 0 ? kNeverTime : static_cast<int64_t>(generator() % 20);
      times[player] = time;
      tournament.set(player, time);
      ASSERT_EQ(tournament.time_of(player), time);
      const auto earliest = std::min_element(times.begin(), times.end());
      ASSERT_EQ(tournament.first_time(), *earliest);
      if (*earliest != kNeverTime) {
        ASSERT_EQ(tournament.first(), static_cast<size_t>(earliest - times.begin()));
      }
      if (i % 50 > 0) continue;
      const auto bound = static_cast<int64_t>(generator() % 22);
      std::vector<size_t> before, expected;
      tournament.each_before(bound, [&](size_t p) { before.push_back(p); });
      for (size_t p = 0; p < count; ++p)
        if (times[p] < bound) expected.push_back(p);
      ASSERT_EQ(before, expected);
    }
  }
}

TEST(Timeline, TellsCrewByCrewWhoIsNext) {
  std::mt19937_64 generator(5);
  std::vector<int32_t> processes;
  for (int id = 0; id < 60; ++id) processes.push_back(static_cast<int32_t>(generator() % 7));
  Timeline timeline(processes);
  std::vector<int64_t> times(processes.size(), kNeverTime);
  const auto set_any = [&] {
    const size_t id = generator() % processes.size();
    times[id] = generator() % 4 == 0 ? kNeverTime : static_cast<int64_t>(generator() % 30);
    timeline.set(static_cast<int32_t>(id), times[id]);
    ASSERT_EQ(timeline.time_of(static_cast<int32_t>(id)), times[id]);
  };
  const auto earliest_of = [&](int32_t process) {
    size_t first = times.size();
    for (size_t id = 0; id < times.size(); ++id)
      if (processes[id] == process && times[id] != kNeverTime && (first == times.size() || times[id] < times[first])) first = id;
    return first;
  };
  for (int i = 0; i < 2000; ++i) {
    set_any();
    const auto process = static_cast<int32_t>(generator() % 7);
    timeline.begin_process(process);
    for (int j = 0; j < 3; ++j) set_any();
    const size_t first = earliest_of(process);
    ASSERT_EQ(timeline.next_time(process), first == times.size() ? kNeverTime : times[first]);
    if (first < times.size()) {
      ASSERT_EQ(static_cast<size_t>(timeline.next_id(process)), first);
    }
    timeline.end_process();
    ASSERT_EQ(timeline.next_time(), *std::min_element(times.begin(), times.end()));
    std::vector<int32_t> due, expected;
    timeline.each_process_before(15, [&](int32_t c) { due.push_back(c); });
    for (int32_t c = 0; c < 7; ++c)
      if (const size_t of = earliest_of(c); of < times.size() && times[of] < 15) expected.push_back(c);
    ASSERT_EQ(due, expected);
  }
}

struct SmallRun {
  SmallRun() : graph(row_convolutions(3, 8, 3)), plan(one_layer_per_device(graph, {100, 100, 0, 0.03})) {
    set_times(plan, graph, kMicrosecond);
    result = simulate(plan, graph, {.samples = 6, .trace = true});
  }
  Graph graph;
  Plan plan;
  SimulationResult result;
};

TEST(Pack, GivesBackWhatItTookAndRefusesAnyPartOfIt) {
  const SmallRun run;
  const std::string bytes = packed(run.result);
  const SimulationResult back = unpacked(bytes);
  EXPECT_EQ(back.finished, run.result.finished);
  EXPECT_EQ(back.trace, run.result.trace);
  EXPECT_EQ(back.events, run.result.events);
  EXPECT_EQ(packed(back), bytes);
  for (size_t length = 0; length < bytes.size(); length += 7)
    EXPECT_THROW(static_cast<void>(unpacked(std::string_view(bytes).substr(0, length))), Error);
  EXPECT_THROW(static_cast<void>(unpacked(bytes + "x")), Error);
}

TEST(Trace, HoldsEverySampleOfEveryEngine) {
  const SmallRun run;
  const nlohmann::json trace = nlohmann::json::parse(trace_json(run.plan, run.result));
  size_t slices = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++slices;
    EXPECT_GT(event.at("dur").get<double>(), 0);
  }
  EXPECT_EQ(slices, run.result.stages.size() * 6);
}

TEST(SimulationPage, SaysWhatDiffersFromThePlan) {
  const SmallRun run;
  const std::string page =
      simulation_page(run.plan, run.result, {.images_per_second = 1e6, .in_flight_samples = 1}, "millrace simulate <x>");
  EXPECT_THAT(page, HasSubstr("slower than its plan"));
  EXPECT_THAT(page, HasSubstr("millrace simulate &lt;x&gt;"));
  for (const DeviceEntry& device : run.plan.cluster.devices) EXPECT_THAT(page, HasSubstr(device.name));
  const std::string kept = simulation_page(run.plan, run.result, {.images_per_second = run.result.images_per_second}, "");
  EXPECT_THAT(kept, HasSubstr("keeps the plan&#39;s pace"));
}

TEST(Findings, NameTheirReasons) {
  const SmallRun run;
  std::vector<std::string> reasons;
  for (const SimulationFinding& finding : findings(run.plan, run.result, {.images_per_second = 1e6, .in_flight_samples = 1}))
    reasons.push_back(finding.reason);
  EXPECT_THAT(reasons, ::testing::IsSupersetOf({"fill", "rate", "in flight"}));
}

TEST(Findings, BlameWhatWorksForMostOfTheTime) {
  SmallRun run;
  for (SimulatedLink& link : run.result.links) link.utilisation = 0;
  const auto pace_of = [&](const SimulationForecast& forecast) {
    std::vector<std::string> found;
    for (const SimulationFinding& finding : findings(run.plan, run.result, forecast))
      if (finding.text.find("sets the pace") != std::string::npos) found.push_back(finding.text);
    return found;
  };
  // An engine by itself; one whose link is busier, or whose replicas take longer to agree, waits for these.
  EXPECT_NE(pace_setter(run.plan, run.result, {}).stage, nullptr);
  EXPECT_THAT(pace_of({.all_reduce_share = 2}), ::testing::ElementsAre(HasSubstr("the all-reduce of the replicas sets the pace")));
  run.result.links[1].utilisation = 1.5;
  EXPECT_EQ(pace_setter(run.plan, run.result, {}).stage, nullptr);
  EXPECT_THAT(pace_of({}), ::testing::ElementsAre(HasSubstr("the link between devices 1 and 2 sets the pace")));
}

TEST(Findings, CountWhatASampleIs) {
  const SmallRun run;
  std::string all;
  for (const SimulationFinding& finding :
       findings(run.plan, run.result, {.images_per_second = 1e6, .one = "utterance", .many = "utterances"}))
    all += finding.text;
  EXPECT_THAT(all, HasSubstr("utterances/s"));
  EXPECT_THAT(all, ::testing::Not(HasSubstr("image")));
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BadPlans, AreNamed) {
  SmallRun run;
  const auto simulated = [&](SimulationOptions options = {.samples = 4}) {
    return error_of([&] { static_cast<void>(simulate(run.plan, run.graph, options)); });
  };
  EXPECT_THAT(simulated({.samples = 1}), HasSubstr("a slope needs two"));
  EXPECT_THAT(simulated({.samples = 4, .fifo_rows = -1}), HasSubstr("FIFO of -1 rows"));
  run.plan.links[0].latency_picoseconds = int64_t{1} << 55;
  EXPECT_THAT(simulated(), HasSubstr("2^62 picoseconds"));
  run = SmallRun();
  run.plan.shards[0].phases.back().multipliers = 0;
  EXPECT_THAT(simulated(), HasSubstr("device 0 has shards with engines of their own and shards that take turns"));
  for (Shard& shard : run.plan.shards) shard.phases.clear();
  EXPECT_THAT(simulated(), HasSubstr("no engine times"));
}

}  // namespace
}  // namespace millrace
