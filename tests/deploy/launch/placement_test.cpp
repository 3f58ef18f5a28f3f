#include "deploy/launch/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "deploy/launch/training_command.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Hosts, AreReadAsMpirunReadsThem) {
  EXPECT_THAT(parse_hosts("# all of them\nworker-1 slots=4\nworker-2   max_slots=9 slots=2 # two\n\n10.0.0.3\ngone slots=0\n", "hosts"),
              ElementsAre(Host{"worker-1", 4}, Host{"worker-2", 2}, Host{"10.0.0.3", 1}));
  EXPECT_THAT(message_of([] { parse_hosts("a\na slots=2\n", "hosts"); }), HasSubstr("hosts: line 2: host \"a\" is listed twice"));
  EXPECT_THAT(message_of([] { parse_hosts("-oProxyCommand=x\n", "hosts"); }), HasSubstr("is not a host's name"));
  EXPECT_THAT(message_of([] { parse_hosts("a; b\n", "hosts"); }), HasSubstr("is not a host's name"));
  EXPECT_THAT(message_of([] { parse_hosts("a user=b\n", "hosts"); }), HasSubstr("\"user=b\" is not understood"));
}

TEST(Hosts, AreReadAsSlurmWritesThem) {
  EXPECT_THAT(parse_slurm_hosts("n[1-3,07],login", "2(x3),1,4"),
              ElementsAre(Host{"n1", 2}, Host{"n2", 2}, Host{"n3", 2}, Host{"n07", 1}, Host{"login", 4}));
  EXPECT_THAT(parse_slurm_hosts("n[08-10]", "1(x3)"), ElementsAre(Host{"n08", 1}, Host{"n09", 1}, Host{"n10", 1}));
  EXPECT_THAT(message_of([] { parse_slurm_hosts("n[1-3]", "2"); }), HasSubstr("do not fit each other"));
  EXPECT_THAT(message_of([] { parse_slurm_hosts("n[1-3", "2"); }), HasSubstr("has no end of its bracket"));
}

PlacementWishes eight_on_four() {
  return {.whole = uniform_cluster("cpu", 8),
          .hosts = {{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}},
          .replicas = 1,
          .threads = 1,
          .ranks = {},
          .cores = 1};
}

TEST(Placement, DropsTheDevicesOfAHostThatIsGone) {
  const PlacementWishes wishes = eight_on_four();
  const RankPlacement all = place(wishes, wishes.hosts);
  EXPECT_EQ(all.cluster, wishes.whole);
  EXPECT_EQ(all.ranks, 8);
  const RankPlacement six = place(wishes, {{"a", 2}, {"c", 2}, {"d", 2}});
  EXPECT_EQ(shorthand_of(six.cluster), "cpux6");
  EXPECT_EQ(six.cluster.devices[2].name, wishes.whole.devices[4].name);
  EXPECT_EQ(six.cluster.links.size(), 5U);
  EXPECT_EQ(six.cluster.links[1].latency_us, 3 * kDefaultLatencyUs);  // across the two that are gone
  EXPECT_THAT(six.hosts, ElementsAre(Host{"a", 2}, Host{"c", 2}, Host{"d", 2}));
  EXPECT_TRUE(place(wishes, {}).cluster.devices.empty());
}

TEST(Placement, LetsDevicesOfNoHostMoveToSlotsThatAreFree) {
  PlacementWishes wishes = eight_on_four();
  wishes.whole = uniform_cluster("cpu", 4);
  const RankPlacement moved = place(wishes, {{"c", 2}, {"d", 2}});
  EXPECT_EQ(moved.cluster, wishes.whole);
  EXPECT_THAT(moved.hosts, ElementsAre(Host{"c", 2}, Host{"d", 2}));
}

TEST(Placement, KeepsRingsOfReplicasEqual) {
  PlacementWishes wishes = eight_on_four();
  wishes.whole = uniform_cluster("cpu", 4);
  wishes.replicas = 2;
  EXPECT_EQ(place(wishes, wishes.hosts).ranks, 8);
  const RankPlacement seven = place(wishes, {{"a", 2}, {"b", 2}, {"c", 2}, {"d", 1}});
  EXPECT_EQ(seven.cluster.devices.size(), 3U);
  EXPECT_EQ(seven.ranks, 6);
}

TEST(Placement, SharesFewerRanksOut) {
  PlacementWishes wishes = eight_on_four();
  wishes.ranks = 4;
  EXPECT_THAT(place(wishes, wishes.hosts).hosts, ElementsAre(Host{"a", 1}, Host{"b", 1}, Host{"c", 1}, Host{"d", 1}));
}

TEST(Placement, TakesHostsFromTheClusterWhereItNamesThem) {
  PlacementWishes wishes = eight_on_four();
  for (size_t d = 0; d < 8; ++d) wishes.whole.devices[d].host = d < 5 ? "a" : "b";
  const RankPlacement all = place(wishes, wishes.hosts);
  EXPECT_THAT(all.hosts, ElementsAre(Host{"a", 5}, Host{"b", 3}));
  EXPECT_EQ(place(wishes, {{"b", 2}}).cluster.devices.size(), 3U);
  wishes.whole.devices[7].host = "a";
  EXPECT_THAT(message_of([&] { place(wishes, wishes.hosts); }), HasSubstr("must follow one another"));
  wishes.whole.devices[7].host = "e";
  EXPECT_THAT(message_of([&] { place(wishes, wishes.hosts); }), HasSubstr("not among the hosts"));
}

TEST(Placement, TakesNoMoreRanksThanCoresOnThisMachine) {
  PlacementWishes wishes{.whole = uniform_cluster("cpu", 8), .hosts = {}, .replicas = 1, .threads = 2, .ranks = {}, .cores = 6};
  EXPECT_EQ(place(wishes, {}).ranks, 3);
  wishes.replicas = 2;
  EXPECT_EQ(place(wishes, {}).ranks, 2);
  wishes.ranks = 8;
  EXPECT_EQ(place(wishes, {}).ranks, 8);
}

TEST(Words, OfATrainingThatGoesOnLeaveOutWhatBeginsOne) {
  EXPECT_THAT(resuming_words({"train", "--out=a", "--job", "j.textproto", "--epochs", "3", "--init-from=w", "--measure", "--json"}, "a"),
              ElementsAre("train", "--epochs", "3", "--json", "--resume", "a"));
  EXPECT_THAT(with_value({"train", "--cluster", "cpux4"}, "--cluster", "cpux3"), ElementsAre("train", "--cluster", "cpux3"));
  EXPECT_THAT(with_value({"train", "--cluster=cpux4"}, "--cluster", "cpux3"), ElementsAre("train", "--cluster=cpux3"));
  EXPECT_THAT(with_value({"train"}, "--cluster", "cpux3"), ElementsAre("train", "--cluster", "cpux3"));
}

}  // namespace
}  // namespace millrace
