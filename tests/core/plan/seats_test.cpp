#include "core/plan/seats.h"

#include <gmock/gmock.h>

#include "core/base/error.h"

namespace millrace {
namespace {

using testing::ElementsAre;

TEST(Seats, AreNumberedByTheirFirstPlaces) {
  const Cluster own = uniform_cluster("cpu", 3);
  EXPECT_FALSE(folds(own));
  EXPECT_THAT(seats_of(own), ElementsAre(0, 1, 2));
  EXPECT_THAT(cables_of(own), ElementsAre(0, 1, 2, 3));

  const Cluster ring = parse_cluster_shorthand("p100+vu9p~2");
  EXPECT_TRUE(folds(ring));
  EXPECT_THAT(seats_of(ring), ElementsAre(0, 1, 0, 1, 0));
  // On the way there forward, and back on links that lead back.
  EXPECT_THAT(cables_of(ring), ElementsAre(0, 1, 1, 0, 0, 1, 1, 0));
}

// A card among others that are one place each.
TEST(Seats, MayBeAnywhereInTheRing) {
  Cluster ring = uniform_cluster("cpu", 5);
  ring.devices[1].seat = "a";
  ring.devices[4].seat = "a";
  EXPECT_TRUE(folds(ring));
  EXPECT_THAT(seats_of(ring), ElementsAre(0, 1, 2, 3, 1));
  EXPECT_THAT(cables_of(ring), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  ring.devices[4].seat = "b";  // named, and no other place's
  EXPECT_FALSE(folds(ring));
}

}  // namespace
}  // namespace millrace
