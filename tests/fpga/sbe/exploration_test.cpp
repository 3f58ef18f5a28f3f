// The exploration against timing and comparing every point of its space, on small layers and boards.
#include "fpga/sbe/exploration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/base/error.h"
#include "tests/fpga/sbe/random_engines.h"

namespace millrace {
namespace {

using testing_support::Dice;

struct Question {
  SbeSpace space;
  SbeBoard board;
  SbeGoal goal;
};

Question random_question(Dice& dice) {
  Question question;
  question.space = {.shape = {.inputs = dice.from_to(1, 24), .hidden = dice.from_to(1, 10), .gates = dice.one_of<int64_t>({1, 3, 4})},
                    .steps = dice.from_to(1, 6),
                    .most_streams = dice.one_of<int64_t>({1, 2}),
                    .most_columns = dice.one_of<int64_t>({1, 2, 4}),
                    .most_tail_units = dice.one_of<int64_t>({1, 2}),
                    .most_blocks = dice.from_to(1, 6),
                    .latency = dice.from_to(0, 30),
                    .inputs_share_bus = dice.from_to(0, 1) == 1};
  question.board = {.name = "small",
                    .dsp = static_cast<double>(dice.from_to(4, 60)),
                    .lut = static_cast<double>(dice.from_to(2'000, 12'000)),
                    .lutram_lut = static_cast<double>(dice.from_to(50, 3'000)),
                    .bram36 = static_cast<double>(dice.from_to(2, 24)),
                    .uram = dice.one_of({0.0, 0.0, 4.0}),
                    .bytes_per_second = static_cast<double>(dice.from_to(1, 40)) * 1e8,
                    .clock_hz = 1e8,
                    .bus_bits = dice.one_of<int64_t>({64, 256})};
  if (dice.from_to(0, 2) == 0) question.goal.least_steps_per_second = static_cast<double>(dice.from_to(1, 40)) * 1e5;
  if (dice.from_to(0, 3) == 0) question.goal.most_seconds = static_cast<double>(dice.from_to(1, 40)) * 1e-7;
  return question;
}

using Figures = std::tuple<double, double, double, double, double>;  // cycles a step, seconds of a batch, blocks, slices, bytes a step
Figures figures_of(const SbePoint& point) {
  return {point.timing.cycles / static_cast<double>(point.config.vectors()), point.seconds, point.use.bram36 + 8 * point.use.uram,
          point.use.dsp, point.bytes_per_step};
}
bool no_worse(const Figures& a, const Figures& b) {
  return std::get<0>(a) <= std::get<0>(b) && std::get<1>(a) <= std::get<1>(b) && std::get<2>(a) <= std::get<2>(b) &&
         std::get<3>(a) <= std::get<3>(b) && std::get<4>(a) <= std::get<4>(b);
}

bool meets(const SbePoint& point, const SbeGoal& goal) {
  return point.steps_per_second >= goal.least_steps_per_second * (1 - 1e-12) &&
         (goal.most_seconds <= 0 || point.seconds <= goal.most_seconds);
}

// Every point, timed.
struct Everything {
  std::vector<SbePoint> all;       // whose tail keeps up
  std::vector<SbePoint> feasible;  // that fit and meet the goal
};

Everything everything(const Question& question) {
  Everything found;
  for_each_config(question.space, question.board.words_per_cycle(), [&](const SbeConfig& config) {
    SbePoint point = point_of(config, question.board);
    if (!point.timing.tail_keeps_up) return;
    if (point.use.fits(question.board) && meets(point, question.goal)) found.feasible.push_back(point);
    found.all.push_back(std::move(point));
  });
  return found;
}

}  // namespace

TEST(Exploration, IsExhaustiveSearch) {
  Dice dice(11);
  int with_answer = 0, without = 0;
  for (int i = 0; i < 500; ++i) {
    const Question question = random_question(dice);
    const Exploration found = explore(question.space, question.board, question.goal);
    const Everything every = everything(question);
    ASSERT_EQ(found.fastest.has_value(), !every.feasible.empty());
    (found.fastest ? with_answer : without) += 1;
    if (!found.fastest) continue;
    double fastest = 0, fewest = 1e9;
    for (const SbePoint& point : every.feasible) {
      fastest = std::max(fastest, point.steps_per_second);
      fewest = std::min(fewest, std::get<2>(figures_of(point)));
    }
    ASSERT_DOUBLE_EQ(found.fastest->steps_per_second, fastest);
    ASSERT_DOUBLE_EQ(std::get<2>(figures_of(*found.smallest)), fewest);
    // The front: nothing feasible beats one of it, and every feasible point is beaten by or like one of it.
    std::vector<Figures> expected;
    for (const SbePoint& point : every.feasible) {
      const Figures figures = figures_of(point);
      const bool beaten = std::ranges::any_of(
          every.feasible, [&](const SbePoint& other) { return figures_of(other) != figures && no_worse(figures_of(other), figures); });
      if (!beaten) expected.push_back(figures);
    }
    std::ranges::sort(expected);
    expected.erase(std::ranges::unique(expected).begin(), expected.end());
    std::vector<Figures> front;
    for (const SbePoint& point : found.front) front.push_back(figures_of(point));
    std::ranges::sort(front);
    ASSERT_EQ(front, expected) << "question " << i;
    ASSERT_LE(found.timed, found.feasible);
  }
  EXPECT_GT(with_answer, 100);
  EXPECT_GT(without, 30);
}

// Where nothing does: each remedy is the least of its limit with which something would, all others as they are.
TEST(Exploration, RemediesAreTheLeastThatWouldDo) {
  Dice dice(12);
  int told = 0;
  for (int i = 0; i < 400; ++i) {
    const Question question = random_question(dice);
    const Exploration found = explore(question.space, question.board, question.goal);
    if (found.fastest) continue;
    for (const Remedy& remedy : found.remedies) {
      Question relaxed = question;
      if (remedy.limit == "bram36") relaxed.board.bram36 = remedy.needed;
      if (remedy.limit == "uram") continue;  // another number of UltraRAMs changes which memory goes where
      if (remedy.limit == "lutram_lut") relaxed.board.lutram_lut = remedy.needed;
      if (remedy.limit == "lut") relaxed.board.lut = remedy.needed / kUsableLuts * (1 + 1e-12);
      if (remedy.limit == "steps_per_second") relaxed.goal.least_steps_per_second = remedy.needed * (1 - 1e-12);
      if (remedy.limit == "seconds") relaxed.goal.most_seconds = remedy.needed;
      if (remedy.limit == "bram36" && question.board.uram > 0) continue;
      ASSERT_TRUE(explore(relaxed.space, relaxed.board, relaxed.goal).fastest) << remedy.limit << " " << remedy.needed;
      const double less = remedy.limit == "steps_per_second" ? 1.001 : 0.999;
      if (remedy.limit == "bram36") relaxed.board.bram36 = remedy.needed - 0.5;
      if (remedy.limit == "lutram_lut") relaxed.board.lutram_lut = remedy.needed * less;
      if (remedy.limit == "lut") relaxed.board.lut = remedy.needed / kUsableLuts * less;
      if (remedy.limit == "steps_per_second") relaxed.goal.least_steps_per_second = remedy.needed * less;
      if (remedy.limit == "seconds") relaxed.goal.most_seconds = remedy.needed * less;
      ASSERT_FALSE(explore(relaxed.space, relaxed.board, relaxed.goal).fastest) << remedy.limit << " " << remedy.needed;
      ++told;
    }
  }
  EXPECT_GT(told, 20);
}

TEST(Exploration, OfNothingIsRefused) {
  EXPECT_THROW(explore({.shape = {0, 4, 4}}, {}), Error);
  EXPECT_THROW(explore({.shape = {4, 4, 4}, .steps = 0}, {}), Error);
}

}  // namespace millrace
