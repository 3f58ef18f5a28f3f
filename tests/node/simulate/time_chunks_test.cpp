// Sequences in chunks of time: beside a plain recursion over the lists of all devices, over any number of ranks, and in messages.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/time_chunking.h"
#include "node/simulate/mini_batch_pace.h"
#include "node/simulate/simulate.h"
#include "node/simulate/trace.h"
#include "tests/node/simulate/same_results.h"
#include "tests/node/simulate/simulated_plans.h"

namespace millrace::testing_support {
namespace {

constexpr int64_t kCells = 2;
constexpr int64_t kLatency = 700'000;  // picoseconds

class Draw {
 public:
  explicit Draw(uint64_t seed) : generator_(seed) {}
  int64_t between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(generator_); }

 private:
  std::mt19937_64 generator_;
};

// A layer of one direction to a device; behind the last of them scores of the last step.
Model chain_of(int64_t layers, int64_t steps) {
  ModelBuilder net("chain", {kCells, steps, 1});
  for (int64_t l = 0; l < layers; ++l) net.layer(fmt::format("lstm{}", l), Recurrent{.hidden = kCells});
  net.layer("last", LastStep{});
  net.dense("fc", 2);
  return net.finish();
}

// Devices that take turns, a sample's phases of so many picoseconds.
Plan plan_of(const Graph& graph, Draw& draw, int64_t devices, int64_t micro_batches, Alignment alignment, double gbps, int64_t chunks) {
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", devices, {gbps, gbps, 0, 1e-6 * kLatency});
  request.alignment = alignment;
  request.micro_batch = draw.between(1, 3);
  request.mini_batch = request.micro_batch * micro_batches;
  std::vector<Cut> cuts;
  for (int64_t d = 1; d < devices; ++d) cuts.push_back({d, 0, 0});
  const std::vector<Split> splits(graph.groups().size(), Split::kInputChannels);
  Plan plan = assemble_plan(graph, request, shards_from_cuts(graph, cuts, splits));
  for (Shard& shard : plan.shards) {
    set_times(shard, graph, 1, 0);
    for (PhaseEngine& engine : shard.phases) engine.picoseconds_per_unit = draw.between(1, 40'000'000);
  }
  plan.time_chunks = chunks;
  return plan;
}

struct When {
  int64_t start = 0, end = 0;
};
using Times = std::map<std::tuple<int64_t, int, int64_t, int64_t>, When>;  // device, phase, micro-batch, chunk (of G: -1)

// What each device does in its order, when it has what it needs and room for what it makes: by definition, message by message.
class Recursion {
 public:
  Recursion(const Plan& plan, const Graph& graph, int64_t mini_batches, double gbps)
      : plan_(plan), graph_(graph), gbps_(gbps), chunks_(plan.time_chunks), devices_(plan.devices()) {
    for (int64_t d = 0; d < devices_; ++d) {
      ScheduleSpec spec = schedule_spec(plan, d, mini_batches);
      spec.chunks = 1;
      lists_.push_back(actions_of(spec));
    }
    for (const size_t way : {size_t{0}, size_t{1}}) {
      sent_[way].resize(to_size(devices_));
      taken_[way].resize(to_size(devices_));
      link_free_[way].resize(to_size(devices_), 0);
    }
  }

  Times run() {
    std::vector<size_t> next(lists_.size(), 0);
    std::vector<int64_t> place(lists_.size(), 0), free(lists_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (int64_t d = 0; d < devices_; ++d) {
        const auto at = to_size(d);
        while (next[at] < lists_[at].size()) {
          const Action& action = lists_[at][next[at]];
          if (!act(d, action, place[at], free[at])) break;
          moved = true;
          const bool whole = action.kind == ActionKind::kUpdate || action.kind == ActionKind::kParameterGradient;
          if (!whole && ++place[at] < chunks_) continue;
          place[at] = 0;
          ++next[at];
        }
      }
    }
    for (size_t d = 0; d < lists_.size(); ++d) EXPECT_EQ(next[d], lists_[d].size()) << "device " << d << " stands still";
    return times_;
  }

 private:
  // Forward over link d, from d; backward over link d, from d + 1. The number of a message: chunk by chunk, micro-batch by micro-batch.
  bool act(int64_t d, const Action& action, int64_t place, int64_t& free) {
    if (action.kind == ActionKind::kUpdate) return true;
    if (action.kind == ActionKind::kParameterGradient) {
      const int64_t end = free + sum(d, Phase::kParameterGradient);
      times_[{d, 2, action.index, -1}] = {free, end};
      free = end;
      return true;
    }
    const bool forward = action.kind == ActionKind::kForward;
    const size_t way = forward ? 0 : 1;
    const int64_t from = forward ? d - 1 : d, to = forward ? d : d - 1;
    const bool reads = forward ? d > 0 : d + 1 < devices_, sends = forward ? d + 1 < devices_ : d > 0;
    const auto number = to_size(action.index * chunks_ + place);
    int64_t start = free;
    if (reads) {
      const std::vector<int64_t>& there = item(sent_[way], from);
      if (there.size() <= number) return false;
      start = std::max(start, there[number]);
    }
    if (sends) {
      int64_t ahead = 2;
      if (forward) ahead = std::max(ahead, item(plan_.windows, d) - item(plan_.windows, d + 1));
      const auto room = to_size(ahead * chunks_);
      const std::vector<int64_t>& taken = item(taken_[way], to);
      if (number >= room) {
        if (taken.size() <= number - room) return false;
        start = std::max(start, taken[number - room] + kLatency);
      }
    }
    const int64_t chunk = forward ? place : chunks_ - 1 - place;
    const int64_t end = start + duration(d, forward ? Phase::kForward : Phase::kErrorBack, chunk, place == (forward ? chunks_ - 1 : 0));
    if (reads) item(taken_[way], from).push_back(start);
    if (sends) {
      const int64_t bits = (begin_of(chunk + 1) - begin_of(chunk)) * kCells * plan_.micro_batch * 32;
      int64_t& link = item(link_free_[way], to);
      link = std::max(link, end) + std::llround(static_cast<double>(bits) * 1000 / gbps_);
      item(sent_[way], to).push_back(link + kLatency);
    }
    times_[{d, forward ? 0 : 1, action.index, chunk}] = {start, end};
    free = end;
    return true;
  }

  int64_t steps() const { return graph_.node(0).output.height; }
  int64_t begin_of(int64_t chunk) const { return steps() * chunk / chunks_; }

  int64_t picoseconds(const Shard& shard, Phase phase) const {
    for (const PhaseEngine& engine : shard.phases)
      if (engine.phase == phase) return engine.picoseconds_per_unit * plan_.micro_batch;
    return 0;
  }
  int64_t sum(int64_t d, Phase phase) const {
    int64_t all = 0;
    for (const Shard& shard : plan_.shards)
      if (shard.device == d) all += picoseconds(shard, phase);
    return all;
  }
  // The layers' share of a chunk; the rest whole.
  int64_t duration(int64_t d, Phase phase, int64_t chunk, bool whole) const {
    int64_t all = 0;
    for (const Shard& shard : plan_.shards) {
      if (shard.device != d) continue;
      const int64_t time = picoseconds(shard, phase);
      if (shard.layer == "fc")
        all += whole ? time : 0;
      else
        all += time * begin_of(chunk + 1) / steps() - time * begin_of(chunk) / steps();
    }
    return all;
  }

  const Plan& plan_;
  const Graph& graph_;
  double gbps_;
  int64_t chunks_;
  int64_t devices_;
  std::vector<std::vector<Action>> lists_;
  std::vector<std::vector<int64_t>> sent_[2], taken_[2];  // by link: when each message is there, and when it is taken
  std::vector<int64_t> link_free_[2];
  Times times_;
};

constexpr Alignment kAlignments[] = {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kFpdeep, Alignment::kStash,
                                     Alignment::kZeroBubble};

TEST(TimeChunks, AreTheRecursionOverAllLists) {
  int uneven = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Draw draw(seed);
    const int64_t devices = draw.between(1, 5), steps = draw.between(2, 17), chunks = draw.between(1, std::min<int64_t>(steps, 7));
    const int64_t micro_batches = std::max(devices, draw.between(1, 6));
    const double gbps = std::array{0.01, 0.02, 0.1, 1.0}[to_size(draw.between(0, 3))];
    const Graph graph(chain_of(devices, steps));
    const Alignment alignment = kAlignments[seed % std::size(kAlignments)];
    const Plan plan = plan_of(graph, draw, devices, micro_batches, alignment, gbps, chunks);
    SCOPED_TRACE(fmt::format("seed {}: {} devices, {} steps in {} chunks, {}", seed, devices, steps, chunks, name_of(alignment)));
    constexpr int64_t kMiniBatches = 3;
    Times expected = Recursion(plan, graph, kMiniBatches, gbps).run();
    const SimulationResult result = simulate(plan, graph, {.samples = kMiniBatches * plan.mini_batch, .trace = true});
    ASSERT_EQ(result.trace.size(), expected.size());
    for (const TraceSpan& span : result.trace) {
      const When& when = expected.at({span.device, span.phase, span.cycle, chunks == 1 && span.phase < 2 ? 0 : span.chunk});
      ASSERT_EQ(span.start, when.start) << span.device << " " << int{span.phase} << " " << span.cycle << "." << span.chunk;
      ASSERT_EQ(span.end, when.end) << span.device << " " << int{span.phase} << " " << span.cycle << "." << span.chunk;
    }
    uneven += steps % chunks != 0 ? 1 : 0;
  }
  EXPECT_GT(uneven, 50);
}

// Sequences that nobody takes in parts between some that are: another direction, all steps at once, two readers.
struct AnyRing {
  AnyRing(uint64_t seed, Alignment alignment, bool streams) : draw(seed), graph(model()) {
    const auto groups = std::ssize(graph.groups());
    const int64_t devices = draw.between(2, std::min<int64_t>(5, groups));
    const int64_t micro_batches = draw.between(devices, 6);
    PlanRequest request;
    request.cluster = uniform_cluster("any", devices, {0.01, 0.02, 0, 0.3});
    request.alignment = alignment;
    request.micro_batch = draw.between(1, 2);
    request.mini_batch = request.micro_batch * micro_batches;
    std::set<int64_t> places;
    while (std::ssize(places) + 1 < devices) places.insert(draw.between(1, groups - 1));
    std::vector<Cut> cuts;
    for (const int64_t place : places) cuts.push_back({place, 0, 0});
    plan = assemble_plan(graph, request, shards_from_cuts(graph, cuts, std::vector<Split>(to_size(groups), Split::kInputChannels)));
    for (Shard& shard : plan.shards) {
      const bool turns = !streams || shard.device % 2 == 0;
      set_times(shard, graph, turns ? draw.between(1, 30'000'000) : draw.between(1, 2'000'000), turns ? 0 : 1);
    }
    plan.time_chunks = draw.between(2, 5);
  }

  Model model() {
    ModelBuilder net("any", {3, draw.between(5, 12), 1});
    const int64_t layers = draw.between(2, 6);
    std::string shortcut;
    for (int64_t l = 0; l < layers; ++l) {
      const std::string name = fmt::format("layer{}", l);
      switch (draw.between(0, 5)) {
        case 0: net.layer(name, Recurrent{.cell = CellKind::kGru, .hidden = 2, .bidirectional = true}); break;
        case 1: net.dense(name, 4); break;
        default: net.layer(name, Recurrent{.hidden = 4}); break;
      }
      if (draw.between(0, 3) == 0) net.relu(name + "_relu");
      if (!shortcut.empty() && draw.between(0, 1) == 0) net.add(name + "_add", {net.last(), shortcut});
      shortcut = net.last();
    }
    if (draw.between(0, 1) == 0) net.layer("last", LastStep{});
    net.dense("fc", 2);
    return net.finish();
  }
  Draw draw;
  Graph graph;
  Plan plan;
};

TEST(TimeChunks, AnyRingMovesWhatItsPlanSaysOnAnyNumberOfRanks) {
  int chunked = 0, whole = 0, mixed = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const Alignment alignment = kAlignments[seed % std::size(kAlignments)];
    const AnyRing ring(seed, alignment, seed % 4 == 0);
    const Plan& plan = ring.plan;
    SCOPED_TRACE(fmt::format("seed {}: {} devices, {} chunks, {}", seed, plan.devices(), plan.time_chunks, name_of(alignment)));
    const SimulationOptions options{.samples = 3 * plan.mini_batch, .trace = true};
    const SimulationResult result = simulate(plan, ring.graph, options);
    const TimeChunking chunking(plan, ring.graph);
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      const bool in_chunks = chunking.flow(static_cast<int64_t>(f));
      (in_chunks ? chunked : whole) += 1;
      EXPECT_EQ(result.flows[f].elements, plan.flows[f].elements_per_sample * result.samples) << f;
      if (streams_rows(plan, ring.graph)) continue;
      EXPECT_EQ(result.flows[f].messages, 3 * plan.micro_batches() * (in_chunks ? plan.time_chunks : 1)) << f;
    }
    mixed += streams_rows(plan, ring.graph) ? 1 : 0;
    for (const int64_t ranks : {2, 3})
      if (ranks <= plan.devices()) expect_same(result, on_ranks(ranks, plan, ring.graph, options));
  }
  EXPECT_GT(chunked, 100);
  EXPECT_GT(whole, 100);
  EXPECT_GT(mixed, 10);
}

// One micro-batch a mini-batch: without chunks one device works at a time.
TEST(TimeChunks, FillAPipelineThatOneMicroBatchLeavesIdle) {
  const Graph graph(chain_of(4, 64));
  Draw draw(1);
  Plan plan = plan_of(graph, draw, 4, 1, Alignment::kFlush, 100, 1);
  for (Shard& shard : plan.shards)
    for (PhaseEngine& engine : shard.phases) engine.picoseconds_per_unit = shard.layer == "fc" ? 1 : 64'000'000;
  const double whole = mini_batch_pace(plan, graph).seconds;
  plan.time_chunks = 16;
  // All but the last device's first chunk, and their latency, go on beside it: F of four layers and E of three, and one G behind.
  EXPECT_NEAR(mini_batch_pace(plan, graph).seconds / whole, (1 + 3.0 / 16 + 1 + 2.0 / 16 + 1) / 8, 0.03);
}

// A window of two mini-batches: the first device, which is faster than the second, ends what it sent ahead sooner than that one takes more.
TEST(TimeChunks, AMiniBatchIsNoFasterThanTheSlowestDevice) {
  const Graph graph(chain_of(2, 64));
  Draw draw(1);
  Plan plan = plan_of(graph, draw, 2, 1, Alignment::kFpdeep, 100, 64);
  const auto phases = [](int64_t forward, int64_t back, int64_t gradient) {
    return std::vector<PhaseEngine>{{Phase::kForward, "engine", 0, 1'000'000 * forward},
                                    {Phase::kErrorBack, "engine", 0, 1'000'000 * back},
                                    {Phase::kParameterGradient, "engine", 0, 1'000'000 * gradient}};
  };
  for (Shard& shard : plan.shards) shard.phases = phases(0, 0, 0);
  plan.shards[0].phases = phases(1521, 826, 1189);
  plan.shards[1].phases = phases(1636, 1102, 1114);
  const double period = 1e-12 * static_cast<double>(slowest_stage(plan, graph) * plan.mini_batch);
  const double seconds = mini_batch_pace(plan, graph).seconds;
  EXPECT_GE(seconds, period);
  EXPECT_LT(seconds, 1.02 * period);
}

TEST(TimeChunks, MeasuredTimesAreOfWholeSequences) {
  const Graph graph(chain_of(2, 8));
  Draw draw(1);
  const Plan plan = plan_of(graph, draw, 2, 2, Alignment::kFlush, 100, 4);
  SimulationOptions options{.samples = 2 * plan.mini_batch};
  options.measured.resize(2, {.forward = 10, .error_back = 10, .parameter_gradient = 10});
  try {
    simulate(plan, graph, options);
    FAIL() << "the times are of another way to train";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr("measured times are of whole sequences, and this plan takes them in 4 chunks"));
  }
}

TEST(TimeChunks, TracesNameThem) {
  const Graph graph(chain_of(2, 8));
  Draw draw(1);
  const Plan plan = plan_of(graph, draw, 2, 2, Alignment::kFlush, 100, 4);
  const std::string json = trace_json(plan, simulate(plan, graph, {.samples = 2 * plan.mini_batch, .trace = true}));
  for (const char* name : {"\"FP 0.0\"", "\"FP 1.3\"", "\"EB 1.0\"", "\"PG 1\""}) EXPECT_THAT(json, testing::HasSubstr(name));
}

}  // namespace
}  // namespace millrace::testing_support
