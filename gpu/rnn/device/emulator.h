// A GPU's blocks, warps and threads on one CPU thread: every GPU thread is a fibre, and a schedule decides which one goes
// on when a fibre waits. It runs the kernels of this folder as they are, for tests: results, deadlocks and, in a build with
// ThreadSanitizer, races between threads that no barrier or flag orders.
//
//   emulator::run({.blocks = 4, .threads = 128, .shared_bytes = 4096, .schedule = emulator::Schedule::kRandom, .seed = 7},
//                 [&] { kernel(parameters); });
//
// All blocks are resident at once, as in a cooperative launch. Throws std::runtime_error when threads wait for ever (a
// barrier that some of a block's threads never reach, a warp's exchange that some lanes leave out), and what a thread
// throws. Not reentrant; one run at a time per process thread. It models no time, no memory scopes and no stale caches.
#pragma once

#include <array>
#include <cstddef>
#include <functional>

namespace millrace::rnn::emulator {

enum class Schedule {
  kInTurn,     // by number, each as far as it gets
  kBackwards,  // by number, highest first
  kLastFirst,  // who became ready last goes first; who polls goes to the end
  kRandom,     // any, by the seed
};

struct Launch {
  int blocks;
  int threads;  // per block, a multiple of 32
  std::size_t shared_bytes = 0;
  int cluster = 1;  // blocks of a cluster
  Schedule schedule = Schedule::kInTurn;
  unsigned seed = 1;
  // Faults to plant, so that a test can show that it would find them: of every so many block barriers that a thread meets,
  // the one to pass without waiting (period 0: none); and whether store_release orders nothing.
  int faulty_barrier_period = 0;
  int faulty_barrier = 0;
  bool faulty_release = false;
};

void run(const Launch& launch, const std::function<void()>& kernel);

// Fibre switches of the last run, a measure of its size.
unsigned long long switches_of_last_run();

// For the vocabulary, inside a kernel.
int thread_index();
int thread_count();
int block_index();
void block_barrier();
unsigned char* shared_memory();

// Blocks of a cluster. A mailbox lies in shared memory, in eight bytes.
struct Mailbox {
  int missing = 0;  // bytes expected and not delivered yet
  short phase = 0;
  short expects = 0;  // whether this phase's number is known
};
int cluster_rank();
void cluster_barrier();
unsigned char* in_cluster(const void* shared, int rank);
void deliver(Mailbox* mailbox, int bytes);
void expect(Mailbox* mailbox, int bytes);
bool has_ended(Mailbox* mailbox, int phase);
void pause();
bool release_is_faulty();
// Grows by a microsecond with every pause of the thread that asks, so that waits end after a known number of polls.
unsigned long long nanoseconds();

using LaneWords = std::array<unsigned, 6>;
using WarpWords = std::array<LaneWords, 32>;
// Every lane gives its words and sees those of all; the result holds until the lane's exchange after the next one.
const WarpWords& exchange_in_warp(const LaneWords& words);

}  // namespace millrace::rnn::emulator
