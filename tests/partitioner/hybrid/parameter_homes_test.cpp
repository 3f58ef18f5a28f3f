#include "partitioner/hybrid/parameter_homes.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace millrace {
namespace {

// Weights of one-byte elements on a few small devices.
HomeProblem drawn_problem(std::mt19937_64& generator) {
  const auto between = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator); };
  HomeProblem problem;
  const int64_t devices = between(1, 5);
  const bool mixed = between(0, 4) == 0;
  for (int64_t d = 0; d < devices; ++d)
    problem.devices.push_back({.capacity = static_cast<double>(between(4, 10)),
                               .fixed = static_cast<double>(between(0, 5)),
                               .memory = mixed && between(0, 1) == 0 ? "other" : "memory"});
  for (int64_t d = 0; d < devices; ++d)
    for (int64_t i = between(0, 2); i > 0; --i) {
      const int64_t elements = between(1, 5);
      problem.weights.push_back({.user = d,
                                 .layer = "layer" + std::to_string(problem.weights.size()),
                                 .elements = elements,
                                 .storage = static_cast<double>(elements)});
    }
  return problem;
}

// Tries every number of elements that each device sends to each device upstream. Calls `found` with what crosses each link.
void try_all(const HomeProblem& problem, double share, const std::function<void(const std::vector<int64_t>&)>& found) {
  const size_t devices = problem.devices.size();
  std::vector<int64_t> used(devices);
  std::vector<int64_t> own(devices);
  for (size_t d = 0; d < devices; ++d) used[d] = static_cast<int64_t>(problem.devices[d].fixed);
  for (const HomeProblem::Weights& weights : problem.weights) own[static_cast<size_t>(weights.user)] += weights.elements;
  std::vector<int64_t> over_link(devices - 1);
  const auto room = [&](size_t d) { return static_cast<double>(used[d]) <= share * problem.devices[d].capacity; };
  const std::function<void(size_t, size_t, int64_t)> give = [&](size_t user, size_t home, int64_t left) {
    // `left` elements of `user` go to devices up to `home`.
    if (left == 0 || user == 0 || home == SIZE_MAX) {
      if (left > 0) return;
      if (user + 1 == devices) {
        for (size_t d = 0; d < devices; ++d)
          if (!room(d)) return;
        found(over_link);
        return;
      }
      give(user + 1, user + 1, own[user + 1]);
      return;
    }
    const bool same = problem.devices[user].memory == problem.devices[home].memory;
    for (int64_t amount = 0; amount <= (same ? left : 0); ++amount) {
      used[home] += amount;
      for (size_t link = home; link < user; ++link) over_link[link] += amount;
      if (room(home)) give(user, home - 1, left - amount);
      used[home] -= amount;
      for (size_t link = home; link < user; ++link) over_link[link] -= amount;
    }
  };
  // The first device keeps all of its own.
  used[0] += own[0];
  if (devices == 1) {
    if (room(0)) found(over_link);
    return;
  }
  give(1, 1, own[1]);
}

TEST(ParameterHomes, FindRoomWheneverThereIsAnyAndLoadEveryLinkTheLeast) {
  std::mt19937_64 generator(21);
  int placed = 0;
  int moved = 0;
  for (int i = 0; i < 2000; ++i) {
    const HomeProblem problem = drawn_problem(generator);
    const double share = std::uniform_real_distribution<double>(0.5, 1)(generator);
    const bool mixed = std::any_of(problem.devices.begin(), problem.devices.end(),
                                   [&](const auto& device) { return device.memory != problem.devices[0].memory; });
    std::vector<int64_t> least;
    try_all(problem, share, [&](const std::vector<int64_t>& over_link) {
      if (least.empty()) least.assign(over_link.size(), INT64_MAX);
      for (size_t l = 0; l < least.size(); ++l) least[l] = std::min(least[l], over_link[l]);
      if (over_link.empty()) least = {0};
    });
    const std::optional<Homes> homes = place_homes(problem, share);
    // With two kinds of memory the nearest device is not always the best: only what is found must be right.
    ASSERT_TRUE(mixed || homes.has_value() == !least.empty()) << "instance " << i;
    if (!homes) continue;
    ASSERT_FALSE(least.empty());
    ++placed;
    EXPECT_TRUE(mixed || problem.devices.size() == 1 || homes->over_link == least) << "instance " << i;
    std::vector<double> used;
    for (const auto& device : problem.devices) used.push_back(device.fixed);
    std::vector<int64_t> away(problem.weights.size());
    for (const ParameterHome& home : homes->remote) {
      ++moved;
      EXPECT_LT(home.home, home.user);
      EXPECT_EQ(problem.devices[static_cast<size_t>(home.home)].memory, problem.devices[static_cast<size_t>(home.user)].memory);
      used[static_cast<size_t>(home.home)] += static_cast<double>(home.count);
      for (size_t w = 0; w < problem.weights.size(); ++w)
        if (problem.weights[w].layer == home.layer) away[w] += home.count;
    }
    for (size_t w = 0; w < problem.weights.size(); ++w) {
      EXPECT_LE(away[w], problem.weights[w].elements);
      used[static_cast<size_t>(problem.weights[w].user)] += static_cast<double>(problem.weights[w].elements - away[w]);
    }
    for (size_t d = 0; d < used.size(); ++d) {
      EXPECT_DOUBLE_EQ(used[d], homes->used[d]);
      EXPECT_LE(used[d], share * problem.devices[d].capacity + 1e-9);
    }
  }
  EXPECT_GT(placed, 400);
  EXPECT_GT(moved, 100);
}

TEST(ParameterHomes, SayWhatFindsNoRoom) {
  HomeProblem problem{.devices = {{10, 2, "memory"}, {10, 2, "memory"}}, .weights = {}};
  problem.weights.push_back({.user = 1, .layer = "a", .elements = 20, .storage = 20});
  EXPECT_FALSE(place_homes(problem, 1));
  const HomeShortage shortage = shortage_of_homes(problem, 1);
  EXPECT_DOUBLE_EQ(shortage.storage, 4);
  EXPECT_EQ(shortage.device, 1);
  EXPECT_DOUBLE_EQ(local_homes(problem).peak, 2.2);
}

TEST(ParameterHomes, NothingTravelsDownstream) {
  HomeProblem problem{.devices = {{10, 0, "memory"}, {100, 0, "memory"}}, .weights = {}};
  problem.weights.push_back({.user = 0, .layer = "a", .elements = 20, .storage = 20});
  EXPECT_FALSE(place_homes(problem, 1));
}

}  // namespace
}  // namespace millrace
