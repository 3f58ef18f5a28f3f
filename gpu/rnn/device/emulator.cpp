#include "gpu/rnn/device/emulator.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/rnn/device/fibre.h"

namespace millrace::rnn::emulator {
namespace {

constexpr int kWarp = 32;
constexpr std::size_t kStack = std::size_t{256} * 1024;

struct Warp {
  // Two exchanges' words: a lane can be one exchange ahead of a slower one, never two.
  std::array<WarpWords, 2> words{};
  std::array<int, 2> arrived{};
  std::vector<int> waiting;
  std::array<char, 2> mark{};
};

struct Block {
  std::vector<unsigned char> shared;
  int arrived = 0;
  std::vector<int> waiting;
  std::array<char, 2> mark{};  // one per parity of the barrier, so that a late thread hears of its own barrier alone
  unsigned barriers = 0;
};

// Blocks that see each other's shared memory: what meets is all their threads.
struct Cluster {
  int arrived = 0;
  std::vector<int> waiting;
  std::array<char, 2> mark{};
  unsigned barriers = 0;
};

enum class Waits { kNot, kAtBarrier, kInWarp };

struct Thread {
  Fibre fibre;
  int block = 0;
  int index = 0;
  unsigned exchanges = 0;
  int barriers = 0;
  unsigned long long pauses = 0;
  Waits waits = Waits::kNot;
};

class Machine {
 public:
  Machine(const Launch& launch, const std::function<void()>& kernel) : launch_(launch), random_(launch.seed) {
    const int warps = launch.threads / kWarp;
    blocks_.resize(static_cast<std::size_t>(launch.blocks));
    for (Block& block : blocks_) {
      // Shared memory starts as anything: here as NaN in every format, so that what was never written shows.
      block.shared.assign(launch.shared_bytes + 16, 0xFF);
    }
    warps_.resize(static_cast<std::size_t>(launch.blocks * warps));
    clusters_.resize(static_cast<std::size_t>(launch.blocks / launch.cluster));
    for (int b = 0; b < launch.blocks; ++b)
      for (int i = 0; i < launch.threads; ++i) {
        auto thread = std::make_unique<Thread>();
        thread->block = b;
        thread->index = i;
        thread->fibre.start(kStack, [this, &kernel] {
          heard(&launched_);
          kernel();
          told(&ended_);
        });
        ready_.push_back(static_cast<int>(threads_.size()));
        threads_.push_back(std::move(thread));
      }
    if (launch.schedule == Schedule::kBackwards) std::reverse(ready_.begin(), ready_.end());
    told(&launched_);
  }

  void run() {
    std::size_t left = threads_.size();
    while (left > 0) {
      if (ready_.empty()) throw std::runtime_error(stuck());
      current_ = take();
      Thread& thread = *threads_[static_cast<std::size_t>(current_)];
      ++switches;
      thread.fibre.enter();
      if (!thread.fibre.finished()) continue;
      --left;
    }
    heard(&ended_);
  }

  Thread& thread() { return *threads_[static_cast<std::size_t>(current_)]; }
  Block& block() { return blocks_[static_cast<std::size_t>(thread().block)]; }
  const Launch& launch() const { return launch_; }

  void barrier() {
    const Unjudged bookkeeping;
    const int number = thread().barriers++;
    if (launch_.faulty_barrier_period > 0 && number % launch_.faulty_barrier_period == launch_.faulty_barrier) return;
    meet(block(), launch_.threads);
  }
  void cluster_barrier() {
    const Unjudged bookkeeping;
    meet(clusters_[static_cast<std::size_t>(thread().block / launch_.cluster)], launch_.cluster * launch_.threads);
  }

  int rank() { return thread().block % launch_.cluster; }
  static unsigned char* begin_of(Block& block) {
    unsigned char* const bytes = block.shared.data();
    return bytes + (16 - reinterpret_cast<std::size_t>(bytes) % 16) % 16;
  }
  unsigned char* in_cluster(const void* shared, int rank) {
    const Unjudged bookkeeping;
    const auto offset = static_cast<const unsigned char*>(shared) - begin_of(block());
    return begin_of(blocks_[static_cast<std::size_t>(thread().block - this->rank() + rank)]) + offset;
  }
  // What was delivered before is seen by who finds the phase ended. `of`: a mailbox, whose first byte is the mark.
  static void deliver(Mailbox* of, int bytes) {
    told(of);
    const Unjudged bookkeeping;
    of->missing -= bytes;
    settle(of);
  }
  static void expect(Mailbox* of, int bytes) {
    const Unjudged bookkeeping;
    of->missing += bytes;
    of->expects = 1;
    settle(of);
  }
  static bool has_ended(Mailbox* of, int phase) {
    {
      const Unjudged bookkeeping;
      if (of->phase % 2 == phase) return false;
    }
    heard(of);
    return true;
  }

  const WarpWords& exchange(const LaneWords& words) {
    const Unjudged bookkeeping;
    Thread& me = thread();
    Warp& warp = warps_[static_cast<std::size_t>(me.block * (launch_.threads / kWarp) + me.index / kWarp)];
    const std::size_t slot = me.exchanges++ % 2;
    char* const mark = &warp.mark[slot];
    warp.words[slot][static_cast<std::size_t>(me.index % kWarp)] = words;
    told(mark);
    if (++warp.arrived[slot] == kWarp) {
      warp.arrived[slot] = 0;
      wake(warp.waiting);
    } else {
      warp.waiting.push_back(current_);
      wait(me, Waits::kInWarp);
    }
    heard(mark);
    return warp.words[slot];
  }

  void pause() {
    const Unjudged bookkeeping;
    Thread& me = thread();
    ++me.pauses;
    if (launch_.schedule == Schedule::kLastFirst)
      ready_.push_front(current_);  // the far end of the stack
    else
      ready_.push_back(current_);
    me.fibre.leave();
  }

  unsigned long long switches = 0;

 private:
  template <class Group>
  void meet(Group& group, int threads) {
    Thread& me = thread();
    char* const mark = &group.mark[group.barriers % 2];
    told(mark);
    if (++group.arrived == threads) {
      group.arrived = 0;
      ++group.barriers;
      wake(group.waiting);
    } else {
      group.waiting.push_back(current_);
      wait(me, Waits::kAtBarrier);
    }
    heard(mark);
  }
  static void settle(Mailbox* of) {
    if (of->expects == 0 || of->missing != 0) return;
    of->expects = 0;
    of->phase = static_cast<short>((of->phase + 1) % 2);
  }

  int take() {
    int chosen = 0;
    if (launch_.schedule == Schedule::kRandom) {
      std::swap(ready_[random_() % ready_.size()], ready_.back());
      chosen = ready_.back();
      ready_.pop_back();
    } else if (launch_.schedule == Schedule::kLastFirst) {
      chosen = ready_.back();
      ready_.pop_back();
    } else {
      chosen = ready_.front();
      ready_.pop_front();
    }
    return chosen;
  }

  void wait(Thread& me, Waits why) {
    me.waits = why;
    me.fibre.leave();
    me.waits = Waits::kNot;
  }

  void wake(std::vector<int>& waiting) {
    if (launch_.schedule == Schedule::kBackwards) std::sort(waiting.rbegin(), waiting.rend());
    if (launch_.schedule == Schedule::kInTurn) std::sort(waiting.begin(), waiting.end());
    ready_.insert(ready_.end(), waiting.begin(), waiting.end());
    waiting.clear();
  }

  std::string stuck() const {
    for (const auto& thread : threads_) {
      if (thread->fibre.finished()) continue;
      const bool barrier = thread->waits == Waits::kAtBarrier;
      return "the kernel waits for ever: thread " + std::to_string(thread->index) + " of block " + std::to_string(thread->block) +
             (barrier ? " stands at a block barrier that other threads of its block never reach"
                      : " takes part in an exchange that other lanes of its warp never reach");
    }
    return "the kernel waits for ever";
  }

  Launch launch_;
  std::mt19937 random_;
  std::vector<Block> blocks_;
  std::vector<Warp> warps_;
  std::vector<Cluster> clusters_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::deque<int> ready_;
  int current_ = 0;
  char launched_ = 0;  // marks: what the host did before, what threads did until their end
  char ended_ = 0;
};

thread_local Machine* machine = nullptr;
thread_local unsigned long long last_switches = 0;

}  // namespace

void run(const Launch& launch, const std::function<void()>& kernel) {
  if (launch.blocks < 1 || launch.threads < kWarp || launch.threads > 1024 || launch.threads % kWarp != 0)
    throw std::invalid_argument("the emulator runs blocks of 32 to 1,024 threads in whole warps, not " + std::to_string(launch.blocks) +
                                " of " + std::to_string(launch.threads));
  if (launch.cluster < 1 || launch.blocks % launch.cluster != 0)
    throw std::invalid_argument(std::to_string(launch.blocks) + " blocks do not make clusters of " + std::to_string(launch.cluster));
  Machine emulated(launch, kernel);
  machine = &emulated;
  try {
    emulated.run();
  } catch (...) {
    machine = nullptr;
    throw;
  }
  last_switches = emulated.switches;
  machine = nullptr;
}

unsigned long long switches_of_last_run() { return last_switches; }

int thread_index() { return machine->thread().index; }
int thread_count() { return machine->launch().threads; }
int block_index() { return machine->thread().block; }
void block_barrier() { machine->barrier(); }
void pause() { machine->pause(); }
bool release_is_faulty() { return machine->launch().faulty_release; }
unsigned long long nanoseconds() { return 1000 * machine->thread().pauses; }
const WarpWords& exchange_in_warp(const LaneWords& words) { return machine->exchange(words); }

unsigned char* shared_memory() { return Machine::begin_of(machine->block()); }

int cluster_rank() { return machine->rank(); }
void cluster_barrier() { machine->cluster_barrier(); }
unsigned char* in_cluster(const void* shared, int rank) { return machine->in_cluster(shared, rank); }
void deliver(Mailbox* mailbox, int bytes) { Machine::deliver(mailbox, bytes); }
void expect(Mailbox* mailbox, int bytes) { Machine::expect(mailbox, bytes); }
bool has_ended(Mailbox* mailbox, int phase) { return Machine::has_ended(mailbox, phase); }

}  // namespace millrace::rnn::emulator
