// Engines of several layers on one board, against every combination there is.
#include "fpga/sbe/joint_exploration.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/core/documents/expect_error.h"
#include "tests/fpga/sbe/random_engines.h"

namespace millrace {
namespace {

using testing_support::Dice;

struct Sum {
  double slices = 0, luts = 0, lutram = 0, bram36 = 0, uram = 0, bytes = 0, seconds = 0;
};

// Written once more: sums of what sbe_use says, each layer alone.
std::vector<Sum> all_ways(const SbeSpace& space, const SbeBoard& board) {
  std::vector<Sum> ways;
  for_each_config(space, board.words_per_cycle(), [&](const SbeConfig& config) {
    const BatchTiming timing = batch_timing(config);
    if (!timing.tail_keeps_up) return;
    const SbeUse use = sbe_use(config, board);
    const double batches = static_cast<double>(space.steps) / static_cast<double>(config.steps * config.streams);
    const auto fabric = static_cast<double>(use.fabric_multipliers);
    ways.push_back({use.dsp + fabric, use.lut - 288 * fabric, use.lutram_lut, use.bram36, use.uram,
                    2 * batches * static_cast<double>(timing.words), batches * timing.cycles / board.clock_hz});
  });
  return ways;
}

struct Best {
  double seconds = 0, blocks = 0;
};

std::vector<Best> every_combination(const std::vector<std::vector<Sum>>& layers, const SbeBoard& board, const BoardShare& taken) {
  std::vector<Best> front;
  const std::function<void(size_t, Sum)> visit = [&](size_t layer, Sum sum) {
    const double overflow = std::max(0.0, sum.slices - std::max(0.0, board.dsp - taken.dsp));
    if (sum.bram36 > board.bram36 - taken.bram36 || sum.uram > board.uram || sum.lutram > board.lutram_lut ||
        sum.luts + 288 * overflow > 0.8 * board.lut - taken.lut)
      return;
    if (layer < layers.size()) {
      for (const Sum& way : layers[layer])
        visit(layer + 1, {sum.slices + way.slices, sum.luts + way.luts, sum.lutram + way.lutram, sum.bram36 + way.bram36,
                          sum.uram + way.uram, sum.bytes + way.bytes, std::max(sum.seconds, way.seconds)});
      return;
    }
    const Best one{std::max(sum.seconds, sum.bytes / board.bytes_per_second), sum.bram36 + sum.uram * 8};
    const auto beats = [](const Best& a, const Best& b) { return a.seconds <= b.seconds && a.blocks <= b.blocks; };
    if (std::ranges::any_of(front, [&](const Best& other) { return beats(other, one); })) return;
    std::erase_if(front, [&](const Best& other) { return beats(one, other); });
    front.push_back(one);
  };
  visit(0, {});
  std::ranges::sort(front, {}, &Best::seconds);
  return front;
}

SbeSpace random_space(Dice& dice, int64_t streams) {
  return {.shape = {.inputs = dice.from_to(1, 40), .hidden = dice.from_to(2, 12), .gates = dice.one_of<int64_t>({1, 3, 4})},
          .steps = dice.one_of<int64_t>({1, 4}),
          .least_streams = streams,
          .most_streams = streams,
          .most_columns = 2,
          .most_tail_units = 1,
          .most_blocks = 2,
          .latency = 15,
          .inputs_share_bus = dice.from_to(0, 1) == 1};
}

}  // namespace

TEST(JointExploration, IsEveryCombination) {
  Dice dice(11);
  int64_t none = 0, bound_by_the_bus = 0, in_fabric = 0, longest_front = 0;
  for (int question = 0; question < 120; ++question) {
    SbeBoard board{.name = "small",
                   .dsp = static_cast<double>(dice.from_to(0, 120)),
                   .lut = static_cast<double>(dice.from_to(3000, 40000)),
                   .lutram_lut = static_cast<double>(dice.from_to(100, 4000)),
                   .bram36 = static_cast<double>(dice.from_to(5, 60)),
                   .uram = 0,
                   .bytes_per_second = 1e7 * static_cast<double>(dice.from_to(1, 60)),
                   .clock_hz = 1e8,
                   .bus_bits = 64};
    const BoardShare taken{.dsp = static_cast<double>(dice.from_to(0, 10)), .lut = 100, .bram36 = 0.5};
    const int64_t streams = dice.one_of<int64_t>({1, 2});
    std::vector<SbeSpace> spaces;
    std::vector<std::vector<Sum>> ways;
    for (int64_t layer = dice.from_to(1, 3); layer > 0; --layer) {
      spaces.push_back(random_space(dice, streams));
      if (spaces.size() == 3) spaces.back().most_columns = 1;
      ways.push_back(all_ways(spaces.back(), board));
    }
    size_t combinations = 1;
    for (const auto& layer : ways) combinations *= layer.size();
    if (combinations > 3'000'000) continue;
    const std::vector<Best> expected = every_combination(ways, board, taken);
    const JointExploration found = explore_together(spaces, board, taken);
    SCOPED_TRACE(question);
    ASSERT_EQ(found.front.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found.front[i].seconds, expected[i].seconds, 1e-9 * expected[i].seconds);
      EXPECT_NEAR(found.front[i].bram36, expected[i].blocks, 1e-9);
      EXPECT_EQ(found.front[i].configs.size(), spaces.size());
    }
    longest_front = std::max(longest_front, static_cast<int64_t>(expected.size()));
    if (expected.empty()) {
      ++none;
      EXPECT_FALSE(found.fastest);
      continue;
    }
    // What it says of its best is what its engines take.
    double engines = 0, slices = 0;
    for (size_t i = 0; i < spaces.size(); ++i) {
      const SbeConfig& config = found.fastest->configs[i];
      const SbePoint point = point_of(config, board);
      engines = std::max(engines, static_cast<double>(spaces[i].steps / config.steps) * point.seconds / static_cast<double>(streams));
      slices += point.use.dsp + static_cast<double>(point.use.fabric_multipliers);
    }
    EXPECT_LE(engines, found.fastest->seconds * (1 + 1e-9));
    EXPECT_NEAR(slices, found.fastest->slices, 1e-9);
    bound_by_the_bus += engines < found.fastest->seconds * (1 - 1e-6) ? 1 : 0;
    in_fabric += slices > board.dsp - taken.dsp ? 1 : 0;
  }
  EXPECT_GT(none, 2);
  EXPECT_GT(bound_by_the_bus, 2);
  EXPECT_GT(in_fabric, 2);
  EXPECT_GT(longest_front, 4);
}

TEST(JointExploration, RefusesWhatIsNoQuestion) {
  expect_error(ErrorCode::kUsage, "no layers", [] { explore_together({}, {}); });
  const SbeSpace open{.shape = {2, 2, 4}, .least_streams = 1, .most_streams = 2};
  expect_error(ErrorCode::kUsage, "1 to 2 leave it open", [&] { explore_together({&open, 1}, {}); });
}

}  // namespace millrace
