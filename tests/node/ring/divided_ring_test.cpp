// Drawn networks and drawn divisions by kind, trained as a user trains them: any number of ranks gives the same bits and counts.
#include <gtest/gtest.h>

#include <map>

#include "core/plan/flow_load.h"
#include "core/plan/time_chunking.h"
#include "tests/core/dataflow/plans_by_kind.h"
#include "tests/node/ring/ring_runs.h"

namespace millrace::testing_support {
namespace {

// Of all lengths, 1 among them, or all as long; the next token is the label.
class DrawnTokens : public Sequences {
 public:
  DrawnTokens(int64_t samples, int64_t steps, bool lengths_differ) : samples_(samples), steps_(steps), lengths_differ_(lengths_differ) {}
  int64_t size() const override { return samples_; }
  int64_t features() const override { return 1; }
  int64_t steps(int64_t sample) const override { return lengths_differ_ ? 1 + sample % steps_ : steps_; }
  void read(int64_t sample, std::span<float> values) const override {
    for (int64_t t = 0; t < steps(sample); ++t) values[to_size(t)] = static_cast<float>(token(sample, t));
  }
  void read_labels(int64_t sample, std::span<int32_t> labels) const override {
    std::ranges::fill(labels, kNoLabel);
    for (int64_t t = 0; t < steps(sample); ++t) labels[to_size(t)] = token(sample, t + 1);
  }

 private:
  static int32_t token(int64_t sample, int64_t step) { return static_cast<int32_t>((5 * sample + step * step) % DrawnByKind::kVocabulary); }

  int64_t samples_, steps_;
  bool lengths_differ_;
};

Dataset tokens_for(int64_t samples, int64_t steps, bool lengths_differ) {
  Dataset data;
  data.name = "drawn";
  data.kind = InputKind::kTokens;
  data.shape = {1, steps, 1};
  data.classes = DrawnByKind::kVocabulary;
  data.label_form = LabelForm::kPerStep;
  data.labels_each = steps;
  data.lengths_differ = lengths_differ && steps > 1;
  data.sequences = std::make_shared<DrawnTokens>(samples, steps, lengths_differ);
  return data;
}

bool carries_state(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return traits_of(node.layer.operation).keeps_state; });
}

TEST(DividedRing, DrawnPlansAreTheSameOnEveryNumberOfRanks) {
  int64_t compared = 0, shared = 0, chunked = 0, records = 0, projected = 0, both = 0, apart = 0;
  std::map<bool, int64_t> stateful;  // by whether steps of such a layer are shared
  for (uint32_t seed = 7000; compared < 64; ++seed) {
    DrawnByKind draw(seed);
    Model model = draw.model();
    model.input_kind = InputKind::kTokens;
    const Graph graph(model);
    if (seed % 5 < 3) draw.draw_what_follows_apart();
    Plan plan = draw.plan(graph, kEveryAlignment[seed % 5], /*lends=*/seed % 4 != 0, /*shares=*/seed % 3 == 0);
    // What is carried to the next mini-batch is there once one is through.
    if (carries_state(graph) && !drains(plan.alignment) && std::ranges::max(plan.windows) > plan.micro_batches()) continue;
    ++compared;
    for (const Group& group : plan.groups) {
      const auto* const cell = std::get_if<Recurrent>(&graph.node(graph.index_of(group.layer)).layer.operation);
      if (cell == nullptr || !divided_by_kind(graph, group)) continue;
      if (cell->stateful) ++stateful[shares_steps(plan, graph, group)];
      projected += cell->projection > 0 ? 1 : 0;
      both += cell->projection > 0 && shares_steps(plan, graph, group) ? 1 : 0;
    }
    if (draw.steps > 1 && seed % 2 == 0) plan.time_chunks = draw.from_to(2, draw.steps);
    apart += std::ranges::count_if(plan.shards, &Shard::after);
    chunked += plan.time_chunks > 1 ? 1 : 0;
    shared += std::ranges::count_if(plan.groups, [&](const Group& group) { return shares_steps(plan, graph, group); });
    RingRun run(graph, plan, /*mini_batches=*/3);
    run.job.out.clear();
    // States flow on from sample to sample, all of them as long.
    const bool lengths_differ = !carries_state(graph);
    run.data = DataSplit{tokens_for(4 * plan.mini_batch, draw.steps, lengths_differ), tokens_for(3, draw.steps, lengths_differ)};
    EqualBits bits;
    for (const int64_t ranks : {int64_t{1}, draw.from_to(1, plan.devices()), plan.devices()}) {
      SCOPED_TRACE(fmt::format("seed {}, {}, {} of {} ranks, {} of {} steps", seed, name_of(plan.alignment), ranks, plan.devices(),
                               plan.time_chunks, draw.steps));
      const RingResult result = run.train(ranks);
      ASSERT_NO_FATAL_FAILURE(bits.expect(result));
      const int64_t tested = evaluation_micro_batches(run.data->test, plan);
      for (size_t f = 0; f < plan.flows.size(); ++f) {
        const Flow& flow = plan.flows[f];
        records += flow.stream == Stream::kRecord ? 1 : 0;
        int64_t elements = elements_per_mini_batch(flow, plan) * run.job.steps;
        if (flow.stream == Stream::kParameter) elements += flow.elements_per_pass * tested;
        ASSERT_EQ(result.bytes[f], elements * 4) << f << " " << name_of(flow.stream) << " " << flow.tensor;
      }
    }
  }
  EXPECT_GE(shared, 3);
  EXPECT_GE(chunked, 6);
  EXPECT_GE(apart, 12);
  EXPECT_GE(records, 24);
  EXPECT_GE(projected, 3);
  EXPECT_GE(both, 1);
  EXPECT_GE(stateful[false], 3);
  EXPECT_GE(stateful[true], 1);
}

}  // namespace
}  // namespace millrace::testing_support
