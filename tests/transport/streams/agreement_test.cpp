// What ranks do together, with ranks as threads.
#include "transport/streams/agreement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::outcomes_on_threads;

// Runs `body(agreement, rank)` on every rank; what each of them threw.
std::vector<std::string> together(int64_t ranks, const std::function<void(Agreement&, int64_t)>& body, TransportSettings settings = {}) {
  LocalHub hub(ranks);
  return outcomes_on_threads(ranks, [&](int64_t rank) {
    Transport transport(hub.wire(rank), settings);
    Agreement agreement(transport);
    body(agreement, rank);
    agreement.close();
  });
}

TEST(Agreement, NobodyPassesABarrierBeforeAllHaveCome) {
  for (const int64_t ranks : {1, 2, 3, 7}) {
    std::atomic<int64_t> came = 0;
    EXPECT_THAT(together(ranks,
                         [&](Agreement& agreement, int64_t) {
                           for (int64_t round = 1; round <= 5; ++round) {
                             ++came;
                             agreement.barrier("round");
                             EXPECT_GE(came, ranks * round);
                           }
                         }),
                Each(""));
  }
}

TEST(Agreement, BroadcastsAndGathersOfAllSizes) {
  for (const int64_t ranks : {1, 2, 5})
    EXPECT_THAT(together(ranks,
                         [&](Agreement& agreement, int64_t rank) {
                           for (const size_t size : std::vector<size_t>{0, 1, 3000, 100'000, 1'000'003}) {
                             std::string content(size, 'x');
                             for (size_t i = 0; i < size; i += 7) content[i] = static_cast<char>(i);
                             EXPECT_EQ(agreement.broadcast("plan", rank == 0 ? content : "nobody reads this"), content);
                           }
                           for (const size_t size : std::vector<size_t>{0, 1, 20'000}) {
                             const auto all = agreement.gather("losses", std::string(size, static_cast<char>('a' + rank)));
                             ASSERT_EQ(all.size(), rank == 0 ? static_cast<size_t>(ranks) : 0);
                             for (size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], std::string(size, static_cast<char>('a' + r)));
                           }
                         }),
                Each(""));
}

TEST(Agreement, AllRefuseInTheSameWords) {
  const std::string words = R"(plan: rank 2 has "b2", rank 0 has "a1"; all ranks must agree)";
  EXPECT_THAT(together(4, [&](Agreement& agreement,
                              int64_t rank) { agreement.require_equal("plan", rank < 2 ? "a1" : "b" + std::to_string(rank)); }),
              Each(words));
  EXPECT_THAT(together(3, [&](Agreement& agreement, int64_t) { agreement.require_equal("plan", "a1"); }), Each(""));
  EXPECT_THAT(together(3,
                       [&](Agreement& agreement, int64_t rank) {
                         agreement.require_all("opening devices", rank == 0 ? "" : "no board in slot " + std::to_string(rank));
                       }),
              Each("opening devices: rank 1: no board in slot 1"));
  EXPECT_THAT(together(3, [&](Agreement& agreement, int64_t) { agreement.require_all("opening devices", ""); }), Each(""));
}

TEST(Agreement, DifferentCallsAreNamed) {
  const auto outcomes = together(2,
                                 [&](Agreement& agreement, int64_t rank) {
                                   if (rank == 0)
                                     agreement.barrier("start");
                                   else
                                     agreement.gather("losses", "1");
                                 },
                                 {.deadline = 2s});
  EXPECT_EQ(outcomes[0],
            "rank 1 is in call 1, gather \"losses\", while rank 0 is in call 1, barrier \"start\"; all ranks must do the same");
}

TEST(Agreement, WhoDoesNotComeIsNamed) {
  LocalHub hub(3);
  const auto outcomes = outcomes_on_threads(3, [&](int64_t rank) {
    if (rank == 1) return;
    Transport transport(hub.wire(rank), {.deadline = 2s});
    Agreement agreement(transport);
    agreement.require_equal("plan", "a");
  });
  // Rank 2 stands beside the one that is missing and says so first; rank 0 hears from rank 2 and waits a little longer.
  EXPECT_THAT(outcomes[0], AllOf(HasSubstr("(deadline 2 s) for gather \"plan\" (control) from rank 1 by way of rank 2, which is alive")));
  EXPECT_THAT(outcomes[2], AllOf(HasSubstr("for broadcast \"verdict\" (control) from rank 0 by way of rank 1, which was silent")));
}

}  // namespace
}  // namespace millrace
