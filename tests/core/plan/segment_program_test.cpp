// The program of a device: one ring printed in full, where activations are fused and where not, and the bookkeeping of
// overwriting and adding replayed channel by channel.
#include "core/plan/segment_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/plan/flows.h"
#include "tests/core/plan/small_plans.h"
#include "tests/core/random_plans.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::plan_of;
using testing_support::RandomPlans;
using testing_support::residual_model;

std::string program_text(const Plan& plan, int64_t device) {
  const Graph graph(plan.model);
  return text_of(compile_segment(plan, graph, device), graph);
}

// b is shared by three devices: one channel and half of the next, the other half and one more, the last.
TEST(SegmentProgram, OfThreeDevicesThatShareALayer) {
  const Graph graph(residual_model());
  const Plan plan = plan_of(graph, {{1, 1, 2}, {1, 3, 0}});
  EXPECT_EQ(program_text(plan, 0),
            "device 0\n"
            "  load    input[0, 3)\n"
            "  compute a.relu[0, 4) = a [0, 3) x [0, 4) input[0, 3) +bias then a.relu\n"
            "  compute b:sum[0, 4) = b [0, 1) x [0, 4) a.relu[0, 4)\n"
            "  compute b:sum[0, 4) += b [1, 2) x [0, 2) a.relu[0, 4)\n"
            "  send    [0, 4) of b:sum[0, 4)\n"
            "  send    [0, 4) of a.relu[0, 4)\n");
  EXPECT_EQ(program_text(plan, 1),
            "device 1\n"
            "  receive a.relu[0, 4) from upstream [0, 4)\n"
            "  receive b:sum[0, 4) from upstream [0, 4)\n"
            "  compute b:sum[0, 4) += b [1, 2) x [2, 4) a.relu[0, 4)\n"
            "  compute b:sum[0, 4) += b [2, 3) x [0, 4) a.relu[0, 4)\n"
            "  send    [0, 4) of b:sum[0, 4)\n"
            "  send    [0, 4) of a.relu[0, 4)\n");
  // b has no bias, so its last sum already is its output; the shortcut's sum takes the activation along.
  EXPECT_EQ(program_text(plan, 2),
            "device 2\n"
            "  receive a.relu[0, 4) from upstream [0, 4)\n"
            "  receive b[0, 4) from upstream [0, 4)\n"
            "  compute b[0, 4) += b [3, 4) x [0, 4) a.relu[0, 4)\n"
            "  apply   b.norm[0, 4) = b.norm b[0, 4)\n"
            "  apply   sum.relu[0, 4) = sum b.norm[0, 4) a.relu[0, 4) then sum.relu\n"
            "  apply   flat[0, 64) = flat sum.relu[0, 4)\n"
            "  compute fc[0, 3) = fc [0, 64) x [0, 3) flat[0, 64) +bias\n"
            "  apply   loss[0, 3) = loss fc[0, 3)\n");
}

TEST(SegmentProgram, FinishesASharedLayerWithBiasAndActivationOnItsLastDevice) {
  const Graph graph(testing_support::small_model());
  const Plan plan = plan_of(graph, {{1, 2, 0}});
  EXPECT_THAT(program_text(plan, 0), HasSubstr("  send    [0, 6) of b:sum[0, 6)\n"));
  EXPECT_THAT(program_text(plan, 1), HasSubstr("  compute b:sum[0, 6) += b [2, 4) x [0, 6) a.pool[2, 4)\n"
                                               "  finish  b.relu[0, 6) = b:sum[0, 6) +bias then b.relu\n"
                                               "  apply   b.pool[0, 6) = b.pool b.relu[0, 6)\n"));
}

TEST(SegmentProgram, FusesAnActivationOnlyWhereNobodyElseReadsWhatItReads) {
  ModelBuilder net("fusion", {2, 4, 4});
  const std::string twice = net.conv("twice", 2, {});  // read by its activation and by the sum
  net.relu("twice.relu");
  net.add("sum", {net.last(), twice});
  net.layer("sum.act", Activation{.kind = ActivationKind::kSigmoid});
  net.layer("norm", BatchNorm{});
  net.relu("norm.relu");
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.relu("pool.relu");
  net.flatten("flat");
  net.dense("fc", 3);
  const Graph graph(net.finish());
  const std::string text = program_text(plan_of(graph, {}), 0);
  EXPECT_THAT(text, HasSubstr("compute twice[0, 2) = twice [0, 2) x [0, 2) input[0, 2) +bias\n  apply   twice.relu[0, 2)"));
  EXPECT_THAT(text, HasSubstr("apply   sum.act[0, 2) = sum twice.relu[0, 2) twice[0, 2) then sum.act\n"));
  EXPECT_THAT(text, HasSubstr("apply   norm.relu[0, 2) = norm sum.act[0, 2) then norm.relu\n"));
  EXPECT_THAT(text, HasSubstr("apply   pool[0, 2) = pool norm.relu[0, 2)\n  apply   pool.relu[0, 2) = pool.relu pool[0, 2)\n"));
}

// ---- properties over random networks and cuts ----------------------------------------------------------------------

template <typename Visit>
void for_random_programs(Visit visit) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlans random(seed);
    const Graph graph(random.model());
    const Plan plan = random.plan(graph, random.between(1, 5), Alignment::kFlush, 2);
    for (int64_t device = 0; device < plan.devices(); ++device) {
      SCOPED_TRACE(device);
      visit(graph, plan, compile_segment(plan, graph, device));
    }
  }
}

// A tensor of which some channels hold something.
class Channels {
 public:
  explicit Channels(const Value& value) : held_(static_cast<size_t>(value.channels.size()), 0), begin_(value.channels.begin) {}
  void hold_all() { held_.assign(held_.size(), 1); }
  bool all_held() const { return std::count(held_.begin(), held_.end(), 0) == 0; }
  // Overwriting may destroy nothing, adding may meet nothing undefined.
  void contribute(const ChannelRange& channels, bool adds) {
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      uint8_t& held = held_.at(static_cast<size_t>(c - begin_));
      EXPECT_EQ(held != 0, adds) << "channel " << c;
      held = 1;
    }
  }

 private:
  std::vector<uint8_t> held_;
  int64_t begin_;
};

TEST(SegmentProgramProperties, EveryValueIsWrittenWholeBeforeItIsRead) {
  for_random_programs([](const Graph&, const Plan&, const SegmentProgram& program) {
    std::vector<Channels> held;
    for (const Value& value : program.values) {
      held.emplace_back(value);
      if (value.zero_first) held.back().hold_all();
    }
    for (const Step& step : program.steps) {
      for (const int64_t input : step.inputs) EXPECT_TRUE(held[static_cast<size_t>(input)].all_held()) << input;
      if (step.output < 0) continue;
      const Value& value = program.values[static_cast<size_t>(step.output)];
      Channels& output = held[static_cast<size_t>(step.output)];
      if (step.kind == StepKind::kCompute && value.sum) {
        output.contribute(step.block.outputs, step.adds);
      } else if (step.kind == StepKind::kReceive) {
        output.contribute(step.channels, value.zero_first);
      } else if (step.kind == StepKind::kCompute) {
        output.contribute(step.block.outputs, step.adds);
      } else {
        output.contribute(value.channels, false);
      }
    }
  });
}

TEST(SegmentProgramProperties, EveryErrorIsCompleteBeforeItIsPassedOn) {
  for_random_programs([](const Graph& graph, const Plan&, const SegmentProgram& program) {
    std::vector<Channels> held;
    for (const Value& value : program.values) {
      held.emplace_back(value);
      if (value.zero_error_first) held.back().hold_all();
    }
    for (auto step = program.steps.rbegin(); step != program.steps.rend(); ++step) {
      const bool loss = step->node == graph.loss();
      if (step->output >= 0 && program.values[static_cast<size_t>(step->output)].error_needed && !loss) {
        EXPECT_TRUE(held[static_cast<size_t>(step->output)].all_held()) << graph.name_of(step->node);
      }
      ASSERT_EQ(step->error_adds.size(), step->inputs.size());
      for (size_t i = 0; i < step->inputs.size(); ++i) {
        const Value& value = program.values[static_cast<size_t>(step->inputs[i])];
        if (!value.error_needed || (step->kind == StepKind::kSend && step->backward_flow < 0)) continue;
        ChannelRange range = value.channels;
        if (step->kind == StepKind::kCompute) range = step->block.inputs;
        if (step->kind == StepKind::kSend) range = step->channels;
        held[static_cast<size_t>(step->inputs[i])].contribute(range, step->error_adds[i] != 0);
      }
    }
  });
}

TEST(SegmentProgramProperties, EveryFlowIsSentOnceAndReceivedOnce) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlans random(seed);
    const Graph graph(random.model());
    const Plan plan = random.plan(graph, random.between(1, 5), Alignment::kFlush, 2);
    std::multiset<int64_t> sent, received, expected;
    for (int64_t f = 0; f < static_cast<int64_t>(plan.flows.size()); ++f) expected.insert(f);
    for (int64_t device = 0; device < plan.devices(); ++device)
      for (const Step& step : compile_segment(plan, graph, device).steps) {
        if (step.kind != StepKind::kSend && step.kind != StepKind::kReceive) continue;
        const bool send = step.kind == StepKind::kSend;
        const Flow& forward = plan.flows.at(static_cast<size_t>(step.forward_flow));
        EXPECT_EQ(forward.link, send ? device : device - 1);
        EXPECT_EQ(forward.channels, step.channels);
        (send ? sent : received).insert(step.forward_flow);
        if (step.backward_flow < 0) continue;
        EXPECT_EQ(plan.flows[static_cast<size_t>(step.backward_flow)].channels, step.channels);
        (send ? received : sent).insert(step.backward_flow);
      }
    EXPECT_EQ(sent, expected);
    EXPECT_EQ(received, expected);
  }
}

TEST(SegmentProgramProperties, FusedActivationsAloneReadWhatTheyAreFusedInto) {
  int64_t fused = 0;
  for_random_programs([&fused](const Graph& graph, const Plan& plan, const SegmentProgram& program) {
    const Placement placement(plan, graph);
    std::multiset<int64_t> run;
    for (const Step& step : program.steps) {
      if (step.kind == StepKind::kApply) run.insert(step.node);
      if (step.activation < 0) continue;
      ++fused;
      run.insert(step.activation);
      EXPECT_EQ(graph.node(step.node).consumers, std::vector<int64_t>{step.activation});
      EXPECT_EQ(placement.owner_of(step.activation), program.device);
      EXPECT_EQ(program.values[static_cast<size_t>(step.output)].node, step.activation);
      EXPECT_FALSE(program.values[static_cast<size_t>(step.output)].sum);
    }
    // Whatever follows a sum on this device runs here, fused or not, once.
    std::multiset<int64_t> expected;
    for (size_t node = 0; node < graph.nodes().size(); ++node)
      if (!graph.nodes()[node].computes && placement.owner_of(static_cast<int64_t>(node)) == program.device)
        expected.insert(static_cast<int64_t>(node));
    EXPECT_EQ(run, expected);
  });
  EXPECT_GT(fused, 100);
}

}  // namespace
}  // namespace millrace
