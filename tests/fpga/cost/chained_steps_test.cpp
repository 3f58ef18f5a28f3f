// The steps of a recurrent layer on a board: cycles, loads, memory, and what is refused.
#include "fpga/cost/chained_steps.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/graph/model_builder.h"
#include "core/plan/flows.h"
#include "fpga/cost/fpga_cost_model.h"
#include "fpga/pe_chain/built_chain.h"
#include "tests/fpga/cost/boards.h"

namespace millrace::chained_steps_by_hand {
namespace {

using testing::HasSubstr;

constexpr Arithmetic kSixteenBits{ElementType::kFixed16, ElementType::kFixed16};

Graph network(const Recurrent& cell, int64_t steps) {
  ModelBuilder net("one", {16, steps, 1});
  net.dense("in", 16);
  net.layer("rnn", cell);
  net.dense("fc", 4);
  Model model = net.finish();
  model.input_kind = InputKind::kFeatures;
  return Graph(model);
}

struct Asked {
  explicit Asked(const Graph& graph, int64_t micro_batch = 1) {
    const Node& node = graph.node(graph.index_of("rnn"));
    blocks = {{{0, 0}, {0, sum_shape(node).channels}}};
    question.node = &node;
    question.blocks = blocks;
    question.micro_batch = micro_batch;
    question.window = 3;
    question.arithmetic = kSixteenBits;
  }
  std::vector<Block> blocks;
  ShardQuestion question;
};

// LSTM of 256 cells, 100 steps, 4 samples: every figure from the parts of pe_chain's model.
TEST(ChainedSteps, AreStepsAndLoads) {
  const Graph graph = network({.hidden = 256}, 100);
  const FpgaResources board = fpga_resources_of(testing_support::vc709(), 16);
  const Asked asked(graph, 4);
  std::string why;
  KnownRows known;
  const auto steps = chained_steps(asked.question, board, 16, known, &why);
  ASSERT_TRUE(steps) << why;
  const BoardRow& row = steps->row;
  const double clock = 200e6;
  // As built: samples take turns, four times what the elements are fed, and what the first still waits for.
  const PeChainHardware built = chain_for({.samples = 4, .products = {{256, 256}}}, row.elements / 32);
  const PassSettings settings = pass_settings(built, 256, 4);
  EXPECT_EQ(row.forward_cycles, steady_step_cycles(built, settings, 4, false));
  EXPECT_GE(row.forward_cycles, 4 * settings.fullest());
  const double weights = 4 * 256 * 256 + 2 * 4 * 256;
  // Of 256 units of four gates, and 8 words of four biases of 32 bits: beats of 32 weights.
  const int64_t fed = settings.full_slices * built.per_chain * 256 + settings.depths_last * settings.feeds_last;
  EXPECT_DOUBLE_EQ(steps->load_seconds, static_cast<double>(4 * fed + 8 * 8) / clock);
  EXPECT_DOUBLE_EQ(steps->forward_seconds, (100 * static_cast<double>(row.forward_cycles) / clock + steps->load_seconds) / 4);
  EXPECT_DOUBLE_EQ(steps->back_seconds, (100 * static_cast<double>(row.back_cycles) / clock + steps->load_seconds) / 4);
  EXPECT_DOUBLE_EQ(steps->off_chip_bytes, 2 * (100 * 5 * 256 * 4 * 3 + 2 * weights));

  // The cost model says the same, FP and EB in turns and no gradients.
  const auto model = make_fpga_cost_model(testing_support::vc709(), kSixteenBits);
  const ShardCost cost = model->cost_of(asked.question);
  ASSERT_EQ(cost.phases.size(), 2u);
  EXPECT_EQ(cost.phases[0],
            (PhaseEngine{Phase::kForward, "pe_chain", 0, static_cast<int64_t>(std::ceil(1e12 * steps->forward_seconds / 100))}));
  EXPECT_EQ(cost.phases[1].phase, Phase::kErrorBack);
  EXPECT_EQ(cost.unit, StreamingUnit::kStep);
  const ShardDemand demand = model->demand_of(asked.question);
  EXPECT_DOUBLE_EQ(demand.seconds, steps->forward_seconds + steps->back_seconds);
  EXPECT_EQ(demand.amounts[0], row.dsp);
  EXPECT_EQ(demand.parameters, 0);
  EXPECT_EQ(model->steps_refusal(asked.question), "");
}

// Both directions one behind the other: twice the steps, twice the weights to load, the elements of one.
TEST(ChainedSteps, DirectionsFollowOneAnother) {
  const Graph one = network({.hidden = 96}, 20), both = network({.hidden = 96, .bidirectional = true}, 20);
  const FpgaResources board = fpga_resources_of(testing_support::vc709(), 16);
  std::string why;
  KnownRows known;
  const auto single = chained_steps(Asked(one).question, board, 16, known, &why),
             two = chained_steps(Asked(both).question, board, 16, known, &why);
  ASSERT_TRUE(single && two) << why;
  EXPECT_EQ(two->row.dsp, single->row.dsp);
  EXPECT_NEAR(two->forward_seconds, 2 * single->forward_seconds, 1e-15);
}

// Whatever was asked for before: layers, samples that take turns, shares of cells and what does not fit.
TEST(ChainedSteps, AreTheSameWhenAskedForAgain) {
  const FpgaResources board = fpga_resources_of(testing_support::vc709(), 16);
  const Graph graphs[] = {network({.hidden = 96}, 20), network({.hidden = 96, .projection = 24}, 20), network({.hidden = 2048}, 20),
                          network({.cell = CellKind::kGru, .hidden = 96, .reset_after = true}, 20),
                          network({.hidden = 96, .bidirectional = true}, 20)};
  KnownRows known;
  for (int again = 0; again < 2; ++again)
    for (const Graph& graph : graphs)
      for (const int64_t samples : {1, 4})
        for (const int64_t share : {0, 40}) {
          Asked asked(graph, samples);
          if (share > 0) asked.question.units = {0, share};
          KnownRows none;
          std::string why, fresh_why;
          const auto steps = chained_steps(asked.question, board, 16, known, &why);
          const auto fresh = chained_steps(asked.question, board, 16, none, &fresh_why);
          EXPECT_EQ(why, fresh_why);
          ASSERT_EQ(steps.has_value(), fresh.has_value());
          if (!steps) continue;
          EXPECT_EQ(steps->row.elements, fresh->row.elements);
          EXPECT_EQ(steps->row.words, fresh->row.words);
          EXPECT_EQ(steps->forward_seconds, fresh->forward_seconds);
          EXPECT_EQ(steps->back_seconds, fresh->back_seconds);
          EXPECT_EQ(steps->off_chip_bytes, fresh->off_chip_bytes);
        }
}

TEST(ChainedSteps, SayWhatIsLacking) {
  const auto model = make_fpga_cost_model(testing_support::vc709(), kSixteenBits);
  const Graph large = network({.hidden = 2048}, 10);
  EXPECT_THAT(model->steps_refusal(Asked(large).question), HasSubstr("weights an element"));
  const Graph before = network({.cell = CellKind::kGru, .hidden = 8}, 10);
  EXPECT_THAT(model->steps_refusal(Asked(before).question), HasSubstr("set reset_after"));
  const auto small = make_fpga_cost_model(testing_support::with(testing_support::vc709(), "dram_bytes", 1e4), kSixteenBits);
  const Graph fits = network({.hidden = 64}, 100);
  EXPECT_THAT(small->steps_refusal(Asked(fits).question), HasSubstr("bytes for the way back in the board's own memory"));
  EXPECT_GT(model->demand_of(Asked(large).question).amounts[0], 1e29);
}

}  // namespace
}  // namespace millrace::chained_steps_by_hand
