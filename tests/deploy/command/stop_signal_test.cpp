// A signal asks for an end, once, and its handler keeps off the stack on which layers compute.
#include "deploy/command/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace millrace {
namespace {

struct sigaction now(int signal) {
  struct sigaction action {};
  EXPECT_EQ(sigaction(signal, nullptr, &action), 0);
  return action;
}

TEST(StopSignal, TheFirstOneSetsTheFlagAndLeavesTheSecondToTheSystem) {
  const std::atomic<bool>& stop = stop_on_signals();
  EXPECT_FALSE(stop);
  ASSERT_EQ(raise(SIGTERM), 0);
  EXPECT_TRUE(stop);
  EXPECT_EQ(now(SIGTERM).sa_handler, SIG_DFL);
}

// Without it an interrupt in the middle of a matrix product now and then corrupts the heap.
TEST(StopSignal, HandlersRunOnAStackOfTheirOwn) {
  stop_on_signals();
  for (const int signal : {SIGINT, SIGTERM}) EXPECT_NE(now(signal).sa_flags & SA_ONSTACK, 0) << signal;
  stack_t stack{};
  ASSERT_EQ(sigaltstack(nullptr, &stack), 0);
  EXPECT_EQ(stack.ss_flags & SS_DISABLE, 0);
}

}  // namespace
}  // namespace millrace
