// Internal to tests/gpu/rnn/ptx: what a running grid consists of, and what it has in flight. See grid.h for the rules.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/rnn/ptx/visibility.h"

namespace millrace::rnn::ptx {

inline constexpr int kWarp = 32;

enum class State : unsigned char { kReady, kAtBarrier, kAtCluster, kInWarp, kFinished };

struct Thread {
  Word* r = nullptr;
  int block = 0, index = 0;
  int pc = 0;
  State state = State::kReady;
  unsigned acquired = 0;           // the block's clock when it last acquired
  unsigned awaits = 0;             // the barrier of the cluster at which it has arrived
  unsigned long long polls = 0;    // strong loads, which stand for time
  Writes shared, global, relaxed;  // not seen by others yet
  std::vector<unsigned char> local;
};

struct Warp {
  int arrived = 0;
  int lanes_left = kWarp;
};

// Counts what is sent to it, in phases.
struct Mailbox {
  long long missing = 0;  // bytes
  unsigned phase = 0;
  bool expects = false;

  void settle() {
    if (!expects || missing != 0) return;
    expects = false;
    ++phase;
  }
};

// On its way to a block of the cluster.
struct Sent {
  int block;
  Word address, mailbox;
  unsigned value;
};

struct Cluster {
  int arrived = 0;
  unsigned barriers = 0;
};

struct Block {
  std::map<Word, Mailbox> mailboxes;
  std::vector<unsigned char> shared;
  int arrived = 0;
  int threads_left = 0;
  unsigned clock = 1;
  BlockWrites writes;
  OldValues old;
};

// All of a launch that runs, and the chance by which its schedule is drawn.
struct LaunchedGrid {
  LaunchedGrid(const Entry& of, const Launch& how) : entry(of), launch(how), random(how.seed) {}

  bool is(Schedule schedule) const { return launch.schedule == schedule; }
  // Whether the rules are used to the full just now.
  bool late() { return is(Schedule::kLate) || (is(Schedule::kRandom) && random() % 2 == 0); }
  Block& block_of(const Thread& thread) { return blocks[static_cast<std::size_t>(thread.block)]; }

  [[noreturn]] void fail(const Thread& thread, const std::string& what) const {
    const Instruction& i = entry.code[static_cast<std::size_t>(thread.pc)];
    throw GridError(entry.demangled + ": thread " + std::to_string(thread.index) + " of block " + std::to_string(thread.block) + ", line " +
                    std::to_string(i.line) + " \"" + entry.lines[static_cast<std::size_t>(i.line)] + "\": " + what);
  }

  const Entry& entry;
  const Launch& launch;
  std::mt19937 random;
  std::vector<Thread> threads;
  std::vector<Block> blocks;
  Statistics statistics;
};

}  // namespace millrace::rnn::ptx
