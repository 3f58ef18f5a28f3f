// Orders, what crosses their cuts, and the cuts of graphs that branch.
#include <algorithm>
#include <random>
#include <set>

#include "partitioner/profile/antichain.h"
#include "partitioner/profile/linearise.h"
#include "tests/partitioner/profile/profile_helpers.h"

namespace millrace {
namespace {

using testing::ElementsAre;

TEST(Linearised, IsTheChainThatOthersMadeOfTheSameGraphs) {
  for (const char* name : {"gnmt", "resnet18", "squeezenet1_0", "vgg16"}) {
    const Profile chain = linearised(load_profile(fixture(std::string(name) + ".graph.txt")));
    const Profile theirs = load_profile(fixture(std::string(name) + ".fine.csv"));
    ASSERT_EQ(chain.size(), theirs.size()) << name;
    EXPECT_TRUE(chain.is_chain());
    for (size_t i = 0; i < chain.nodes.size(); ++i) {
      EXPECT_EQ(chain.nodes[i].name, theirs.nodes[i].name);
      EXPECT_NEAR(chain.nodes[i].forward_seconds, theirs.nodes[i].forward_seconds, 1e-15) << name << ' ' << chain.nodes[i].name;
      EXPECT_NEAR(chain.nodes[i].backward_seconds, theirs.nodes[i].backward_seconds, 1e-15) << name << ' ' << chain.nodes[i].name;
      EXPECT_EQ(chain.nodes[i].out_bytes, theirs.nodes[i].out_bytes) << name << ' ' << chain.nodes[i].name;
      EXPECT_EQ(chain.nodes[i].parameter_bytes, theirs.nodes[i].parameter_bytes) << name << ' ' << chain.nodes[i].name;
      EXPECT_EQ(chain.nodes[i].activation_bytes, theirs.nodes[i].activation_bytes) << name << ' ' << chain.nodes[i].name;
    }
  }
}

TEST(CrossingBytes, CountsATensorOnceHoweverManyTakeIt) {
  Profile profile = chain_of({1, 1, 1, 1}, {100, 10, 1, 1000});
  profile.edges = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {2, 3}};
  EXPECT_THAT(crossing_bytes(profile), ElementsAre(0, 100, 110, 101, 0));
  EXPECT_EQ(linearised(profile).nodes[1].out_bytes, 110);
  EXPECT_FALSE(profile.is_chain());
  EXPECT_EQ(linear_cuts(profile).kind, CutKind::kLinearised);
  EXPECT_EQ(linear_cuts(linearised(profile)).kind, CutKind::kChain);
}

TEST(TopologicalOrder, TakesTheSmallestNameThatIsReady) {
  std::vector<ProfileNode> nodes(4);
  nodes[0].name = "node10";
  nodes[1].name = "node9";
  nodes[2].name = "node1";
  nodes[3].name = "node2";
  EXPECT_THAT(topological_order(nodes, {}), ElementsAre(2, 3, 1, 0));
  EXPECT_THAT(topological_order(nodes, std::vector<ProfileEdge>{{0, 2}}), ElementsAre(3, 1, 0, 2));
  EXPECT_THAT(topological_order(nodes, std::vector<ProfileEdge>{{0, 2}, {2, 0}}), ElementsAre(3, 1));
}

TEST(AntichainCuts, OfAChainAreThoseOfItsOrder) {
  const Profile profile = chain_of({1, 0, 0, 2, 0}, {1, 2, 3, 4, 5}, {5, 6, 7, 8, 9}, {1, 1, 2, 2, 3});
  const CutSpace order = linear_cuts(profile);
  const CutSpace cuts = *antichain_cuts(profile);
  EXPECT_EQ(cuts.kind, CutKind::kChain);
  EXPECT_EQ(cuts.seconds, order.seconds);
  EXPECT_EQ(cuts.crossing_bytes, order.crossing_bytes);
  EXPECT_EQ(cuts.parameter_bytes, order.parameter_bytes);
  EXPECT_EQ(cuts.activation_bytes, order.activation_bytes);
  EXPECT_EQ(cuts.nodes, order.nodes);
  EXPECT_EQ(cuts.nodes_between(1, 3), order.nodes_between(1, 3));
}

TEST(AntichainCuts, OfBranchesSideBySideAreTheirProduct) {
  // Fork, branches of 2, 3 and 1 nodes, join.
  Profile profile = chain_of({1, 1, 1, 1, 1, 1, 1, 1});
  profile.edges = {{0, 1}, {0, 3}, {0, 6}, {1, 2}, {2, 7}, {3, 4}, {4, 5}, {5, 7}, {6, 7}};
  EXPECT_EQ(antichain_cuts(profile)->size(), 1 + 3 * 4 * 2 + 1);
  EXPECT_TRUE(antichain_cuts(profile, 26).has_value());
  EXPECT_FALSE(antichain_cuts(profile, 25).has_value());
  EXPECT_FALSE(antichain_cuts(profile, 0).has_value());
}

TEST(AntichainCuts, AreExactlyTheSetsThatHoldWhatTheirNodesDependOn) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const int64_t nodes = 1 + static_cast<int64_t>(random() % 10);
    Profile profile;
    for (int64_t i = 0; i < nodes; ++i) {
      const auto amount = [&] { return static_cast<double>(random() % 4); };
      profile.nodes.push_back({fmt::format("n{}", i), "", amount(), amount(), amount(), amount(), amount()});
    }
    for (int64_t from = 0; from < nodes; ++from)
      for (int64_t to = from + 1; to < nodes; ++to)
        if (random() % 3 == 0) profile.edges.push_back({from, to});
    std::set<uint64_t> closed;
    for (uint64_t set = 0; set < uint64_t{1} << nodes; ++set)
      if (std::all_of(profile.edges.begin(), profile.edges.end(),
                      [&](const ProfileEdge& edge) { return (set >> edge.to & 1) <= (set >> edge.from & 1); }))
        closed.insert(set);

    const CutSpace cuts = *antichain_cuts(profile);
    ASSERT_EQ(static_cast<size_t>(cuts.size()), closed.size());
    std::vector<uint64_t> sets;
    for (int64_t cut = 0; cut < cuts.size(); ++cut) {
      uint64_t set = 0;
      for (const int64_t node : cuts.nodes_between(0, cut)) set |= uint64_t{1} << node;
      EXPECT_TRUE(closed.erase(set) == 1) << set;
      sets.push_back(set);
      double crossing = 0;
      double seconds = 0;
      for (int64_t node = 0; node < nodes; ++node) {
        const ProfileNode& made = profile.nodes[static_cast<size_t>(node)];
        const bool inside = (set >> node & 1) != 0;
        seconds += inside ? made.seconds() : 0;
        crossing += inside && std::any_of(profile.edges.begin(), profile.edges.end(),
                                          [&](const ProfileEdge& edge) { return edge.from == node && (set >> edge.to & 1) == 0; })
                        ? made.out_bytes
                        : 0;
      }
      EXPECT_EQ(cuts.seconds[static_cast<size_t>(cut)], seconds);
      EXPECT_EQ(cuts.crossing_bytes[static_cast<size_t>(cut)], crossing);
    }
    for (size_t a = 0; a < sets.size(); ++a)
      for (size_t b = 0; b < sets.size(); ++b) {
        const bool holds = a != b && (sets[a] & ~sets[b]) == 0;
        EXPECT_EQ(cuts.precedes(static_cast<int64_t>(a), static_cast<int64_t>(b)), holds) << a << ' ' << b;
        if (holds) {
          EXPECT_LT(a, b);
        }
      }
    EXPECT_TRUE(std::is_sorted(cuts.seconds.begin(), cuts.seconds.end()));
  }
}

}  // namespace
}  // namespace millrace
