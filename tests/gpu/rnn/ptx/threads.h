// Internal to tests/gpu/rnn/ptx: what a running grid consists of, and what it has in flight. See grid.h for the rules.
#pragma once

#include <map>
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

}  // namespace millrace::rnn::ptx
