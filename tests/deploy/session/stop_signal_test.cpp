// A signal asks for an end, once, and its handler keeps off the stack on which layers compute.
#include "deploy/session/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace millrace {
namespace {

struct sigaction now(int signal) {
  struct sigaction action {};
  EXPECT_EQ(sigaction(signal, nullptr, &action), 0);
  return action;
}

TEST(StopSignal, TheFirstOneSetsTheFlagAndLeavesTheSecondToTheSystem) {
  const TrainingSignals& signals = listen_to_signals();
  EXPECT_FALSE(signals.stop);
  ASSERT_EQ(raise(SIGTERM), 0);
  EXPECT_TRUE(signals.stop);
  EXPECT_TRUE(signals.describe) << "and says what it waits for";
  EXPECT_TRUE(signals.any);
  EXPECT_EQ(now(SIGTERM).sa_handler, SIG_DFL);
}

TEST(StopSignal, ACheckpointIsAskedForAgainAndAgainWithoutAnEnd) {
  TrainingSignals& signals = listen_to_signals();
  signals.stop = signals.any = false;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(raise(SIGUSR1), 0);
    EXPECT_TRUE(signals.checkpoint.exchange(false));
    EXPECT_TRUE(signals.any.exchange(false));
  }
  EXPECT_FALSE(signals.stop);
  ASSERT_EQ(raise(SIGUSR2), 0);
  EXPECT_TRUE(signals.stop);
  EXPECT_FALSE(signals.checkpoint);
}

// In a process that was started by this one, as ranks are by mpirun: whether it heard its parent once and then itself.
bool tells_its_parent_from_itself() {
  const TrainingSignals& signals = listen_to_signals();
  sigset_t none;
  sigemptyset(&none);
  sigsuspend(&none);  // until the parent's signal has been handled
  if (signals.shared_checkpoints != 1 || signals.checkpoint || !signals.any) return false;
  raise(SIGUSR1);
  sigsuspend(&none);
  return signals.shared_checkpoints == 1 && signals.checkpoint;
}

TEST(StopSignal, CountsTheCheckpointsThatTheStarterOfAllRanksAsksFor) {
  sigset_t usr1, before;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  listen_to_signals().checkpoint = false;
  ASSERT_EQ(sigprocmask(SIG_BLOCK, &usr1, &before), 0);  // the child has it too, and so loses none
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(tells_its_parent_from_itself() ? 0 : 1);
  ASSERT_EQ(kill(child, SIGUSR1), 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(sigprocmask(SIG_SETMASK, &before, nullptr), 0);
}

TEST(StopSignal, ATerminalThatGoesAwayAsksForAnEndUnlessNobodyIsToHearOfIt) {
  signal(SIGHUP, SIG_DFL);
  TrainingSignals& signals = listen_to_signals();
  for (int i = 0; i < 2; ++i) {  // the shell and the system both say so
    signals.stop = signals.any = false;
    ASSERT_EQ(raise(SIGHUP), 0);
    EXPECT_TRUE(signals.stop);
    EXPECT_TRUE(signals.any);
  }
  signal(SIGHUP, SIG_IGN);  // nohup
  listen_to_signals();
  EXPECT_EQ(now(SIGHUP).sa_handler, SIG_IGN);
  signal(SIGHUP, SIG_DFL);
}

TEST(StopSignal, WritesItsLastWordsAtOnce) {
  listen_to_signals();
  set_last_words("the first");
  set_last_words(std::string(5000, 'x'));
  set_last_words("the newest");
  testing::internal::CaptureStderr();
  ASSERT_EQ(raise(SIGTERM), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "the newest\n");
}

// Without it an interrupt in the middle of a matrix product now and then corrupts the heap.
TEST(StopSignal, HandlersRunOnAStackOfTheirOwn) {
  signal(SIGHUP, SIG_DFL);  // the check may run under nohup
  listen_to_signals();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) EXPECT_NE(now(signal).sa_flags & SA_ONSTACK, 0) << signal;
  stack_t stack{};
  ASSERT_EQ(sigaltstack(nullptr, &stack), 0);
  EXPECT_EQ(stack.ss_flags & SS_DISABLE, 0);
}

}  // namespace
}  // namespace millrace
