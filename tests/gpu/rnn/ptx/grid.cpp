#include "tests/gpu/rnn/ptx/grid.h"

#include <cmath>
#include <deque>
#include <string>

#include "tests/gpu/rnn/ptx/grid_memory.h"
#include "tests/gpu/rnn/ptx/matrix.h"

namespace millrace::rnn::ptx {
namespace {

constexpr int kPublishes = 1;  // the thread whose chain is counted: of an LSTM's unit the lane that publishes, else any that owns one

class RunningGrid {
 public:
  RunningGrid(const Entry& entry, const Launch& launch, const std::vector<unsigned char>& parameters, const MayAccess& may_access)
      : grid_(entry, launch), memory_(grid_, parameters, may_access) {
    const int blocks = launch.blocks - launch.missing_blocks;
    const std::size_t slots = entry.slots.size();
    const auto threads = static_cast<std::size_t>(launch.threads);
    grid_.blocks.resize(static_cast<std::size_t>(blocks));
    grid_.threads.resize(grid_.blocks.size() * threads);
    warps_.resize(grid_.threads.size() / kWarp);
    clusters_.resize(grid_.blocks.size() / static_cast<std::size_t>(launch.cluster));
    registers_.resize(grid_.threads.size() * slots);
    for (Block& block : grid_.blocks) {
      // What was never written is a NaN in every format.
      block.shared.assign(static_cast<std::size_t>(entry.static_shared + launch.shared_bytes), 0xFF);
      block.threads_left = launch.threads;
    }
    for (std::size_t t = 0; t < grid_.threads.size(); ++t) {
      Thread& thread = grid_.threads[t];
      thread.r = registers_.data() + t * slots;
      std::copy(entry.slots.begin(), entry.slots.end(), thread.r);
      thread.block = static_cast<int>(t / threads);
      thread.index = static_cast<int>(t % threads);
      thread.r[entry.thread] = static_cast<Word>(thread.index);
      thread.r[entry.threads] = threads;
      thread.r[entry.block] = static_cast<Word>(thread.block);
      thread.r[entry.blocks] = static_cast<Word>(launch.blocks);
      thread.r[entry.rank] = static_cast<Word>(thread.block % launch.cluster);
      thread.local.resize(static_cast<std::size_t>(entry.local));
      ready_.push_back(static_cast<int>(t));
    }
  }

  Statistics run() {
    std::size_t left = grid_.threads.size();
    while (left > 0) {
      if (ready_.empty()) throw GridError(stuck());
      current_ = take();
      Thread& thread = grid_.threads[static_cast<std::size_t>(current_)];
      const unsigned long long quantum = grid_.is(Schedule::kRandom) ? 1 + grid_.random() % 48 : ~0ULL;
      const bool goes_on = step(thread, quantum);
      if (thread.state == State::kFinished)
        --left;
      else if (goes_on && grid_.is(Schedule::kLate))
        ready_.push_front(current_);  // the far end of the stack
      else if (goes_on)
        ready_.push_back(current_);
      memory_.show_relaxed(left);
      if (!sent_.empty()) deliver_some(left);
      if (grid_.statistics.instructions > grid_.launch.most_instructions) throw GridError("too many instructions: a loop without an end?");
    }
    for (Thread& thread : grid_.threads) memory_.show_all(thread);
    for (Block& block : grid_.blocks) block.writes.publish();
    grid_.statistics.different_loads = memory_.different_loads();
    return grid_.statistics;
  }

 private:
  Warp& warp_of(const Thread& thread) {
    return warps_[static_cast<std::size_t>((thread.block * grid_.launch.threads + thread.index) / kWarp)];
  }
  Thread* lanes_of(const Thread& thread) {
    return &grid_.threads[static_cast<std::size_t>(thread.block * grid_.launch.threads + thread.index / kWarp * kWarp)];
  }

  // With even seeds some warps take several times as long as others.
  bool is_slow(int thread) const {
    return grid_.launch.seed % 2 == 0 && ((static_cast<unsigned>(thread / kWarp) * 2654435761U + grid_.launch.seed) >> 8U) % 8 == 0;
  }

  int take() {
    int chosen = 0;
    if (grid_.is(Schedule::kInTurn)) {
      chosen = ready_.front();
      ready_.pop_front();
      return chosen;
    }
    if (grid_.is(Schedule::kRandom)) {
      std::size_t drawn = grid_.random() % ready_.size();
      if (is_slow(ready_[drawn])) drawn = grid_.random() % ready_.size();
      std::swap(ready_[drawn], ready_.back());
    }
    chosen = ready_.back();
    ready_.pop_back();
    return chosen;
  }

  // Runs a thread until it waits, polls, ends or has had its turn; true when it is ready to go on.
  bool step(Thread& thread, unsigned long long quantum) {
    const Instruction* const code = grid_.entry.code.data();
    Word* const r = thread.r;
    for (unsigned long long n = 0; n < quantum; ++n) {
      const Instruction& i = code[thread.pc];
      ++grid_.statistics.instructions;
      if (&thread == grid_.threads.data() + kPublishes) count(i);
      if (i.guard >= 0 && (r[i.guard] != 0) == i.guard_negated) {
        ++thread.pc;
        continue;
      }
      switch (i.kind) {
        case Kind::kAlu:
          grid_.statistics.divisions += i.part == Part::kIntegerDivision ? 1 : 0;
          i.run(r, i);
          ++thread.pc;
          break;
        case Kind::kBranch: thread.pc = i.target; break;
        case Kind::kLoad: {
          memory_.load(thread, i);
          ++thread.pc;
          const bool polled = i.space == Space::kGlobal && (i.order == Order::kRelaxed || i.order == Order::kAcquire);
          if (polled && thread.polls++ % 4 == 3) return true;
          break;
        }
        case Kind::kStore:
          memory_.store(thread, i);
          ++thread.pc;
          break;
        case Kind::kFence:
          memory_.release(thread);
          memory_.acquire(thread);
          ++thread.pc;
          break;
        case Kind::kTimer:
          r[i.at[0]] = 1000 * thread.polls;
          ++thread.pc;
          break;
        case Kind::kBarrier: return barrier(thread);
        case Kind::kShuffle:
        case Kind::kMatrix:
          if (!meet(thread, i)) return false;
          break;
        case Kind::kClusterArrive:
          arrive_in_cluster(thread);
          ++thread.pc;
          break;
        case Kind::kClusterWait:
          ++thread.pc;
          if (cluster_of(thread).barriers != thread.awaits) break;
          thread.state = State::kAtCluster;
          return false;
        case Kind::kOpenMailbox:
          if (r[i.at[1]] != 1) grid_.fail(thread, "only mailboxes of one thread are known");
          grid_.block_of(thread).mailboxes[r[i.at[0]] & 0xFFFFFFU] = {};
          ++thread.pc;
          break;
        case Kind::kExpect: {
          Mailbox& mailbox = opened(thread, grid_.block_of(thread), r[i.at[1]]);
          if (mailbox.expects) grid_.fail(thread, "expects more before all is there that it expects");
          mailbox.expects = true;
          mailbox.missing += static_cast<std::int32_t>(r[i.at[2]]);
          mailbox.settle();
          ++thread.pc;
          break;
        }
        case Kind::kAwait: {
          const bool ended = opened(thread, grid_.block_of(thread), r[i.at[1]]).phase % 2 != (r[i.at[2]] & 1U);
          r[i.at[0]] = ended ? 1 : 0;
          ++thread.pc;
          if (!ended) return true;
          break;
        }
        case Kind::kSend:
          send(thread, i);
          ++thread.pc;
          break;
        case Kind::kReturn: finish(thread); return false;
      }
    }
    return true;
  }

  void count(const Instruction& i) {
    Chain& chain = grid_.statistics.chain[barriers_of_first_ % 2];
    ++chain.instructions;
    chain.integer_divisions += i.part == Part::kIntegerDivision ? 1 : 0;
    chain.exact_divisions += i.part == Part::kExactDivision ? 1 : 0;
    chain.products += i.part == Part::kProduct || i.kind == Kind::kMatrix ? 1 : 0;
    const bool access = i.kind == Kind::kLoad || i.kind == Kind::kStore;
    chain.shared += access && i.space == Space::kShared ? 1 : 0;
    chain.global += access && i.space == Space::kGlobal ? 1 : 0;
    chain.exchanges += i.kind == Kind::kShuffle ? 1 : 0;
    barriers_of_first_ += i.kind == Kind::kBarrier || i.kind == Kind::kClusterWait ? 1 : 0;
  }

  // --- Meeting.

  bool barrier(Thread& thread) {
    Block& block = grid_.block_of(thread);
    ++thread.pc;
    thread.state = State::kAtBarrier;
    ++block.arrived;
    if (block.arrived < block.threads_left) return false;
    open_barrier(thread.block);
    return false;
  }

  // Everybody is here: wakes all, the last one among them.
  void open_barrier(int number) {
    Block& block = grid_.blocks[static_cast<std::size_t>(number)];
    block.arrived = 0;
    ++block.clock;
    const bool publishes = !grid_.late();
    unsigned acquired = 0;
    for (int t = 0; t < grid_.launch.threads; ++t) {
      Thread& one = grid_.threads[static_cast<std::size_t>(number * grid_.launch.threads + t)];
      one.shared.drain([&](const Write& write) { store_bytes(block.shared.data() + write.address, write.value, write.bytes); });
      one.global.drain([&](const Write& write) {
        block.writes.add(write);
        block.old.forget(write.address);
      });
      acquired = std::max(acquired, one.acquired);
    }
    if (publishes) block.writes.publish();
    for (int t = 0; t < grid_.launch.threads; ++t) {
      Thread& one = grid_.threads[static_cast<std::size_t>(number * grid_.launch.threads + t)];
      one.acquired = acquired;  // what one of them has acquired, all of them see
      if (one.state != State::kAtBarrier) continue;
      one.state = State::kReady;
      ready_.push_back(number * grid_.launch.threads + t);
    }
  }

  // --- Clusters.

  Cluster& cluster_of(const Thread& thread) { return clusters_[static_cast<std::size_t>(thread.block / grid_.launch.cluster)]; }

  void arrive_in_cluster(Thread& thread) {
    Cluster& cluster = cluster_of(thread);
    thread.awaits = cluster.barriers;
    const int first = thread.block / grid_.launch.cluster * grid_.launch.cluster;
    if (++cluster.arrived < grid_.launch.cluster * grid_.launch.threads) return;
    cluster.arrived = 0;
    ++cluster.barriers;
    for (int b = first; b < first + grid_.launch.cluster; ++b) {
      Block& block = grid_.blocks[static_cast<std::size_t>(b)];
      ++block.clock;
      for (int t = b * grid_.launch.threads; t < (b + 1) * grid_.launch.threads; ++t) {
        Thread& one = grid_.threads[static_cast<std::size_t>(t)];
        one.shared.drain([&](const Write& write) { store_bytes(block.shared.data() + write.address, write.value, write.bytes); });
        one.global.drain([&](const Write& write) { block.writes.add(write); });
        if (one.state != State::kAtCluster) continue;
        one.state = State::kReady;
        ready_.push_back(t);
      }
    }
  }

  Mailbox& opened(const Thread& thread, Block& block, Word address) {
    const auto found = block.mailboxes.find(address & 0xFFFFFFU);
    if (found == block.mailboxes.end()) grid_.fail(thread, "no mailbox was opened at " + std::to_string(address & 0xFFFFFFU));
    return found->second;
  }

  void send(Thread& thread, const Instruction& i) {
    const auto to = static_cast<std::uint32_t>(thread.r[i.at[0]]), mailbox = static_cast<std::uint32_t>(thread.r[i.at[2]]);
    const int rank = static_cast<int>(to >> 24U) - 1;
    if (to >> 24U != mailbox >> 24U || rank < 0 || rank >= grid_.launch.cluster)
      grid_.fail(thread, "sends to a block that is not of its cluster");
    const Sent sent{thread.block / grid_.launch.cluster * grid_.launch.cluster + rank, to & 0xFFFFFFU, mailbox & 0xFFFFFFU,
                    static_cast<std::uint32_t>(thread.r[i.at[1]])};
    Block& block = grid_.blocks[static_cast<std::size_t>(sent.block)];
    if (block.threads_left == 0) grid_.fail(thread, "sends to a block that has ended");
    if (sent.address % 4 != 0 || sent.address + 4 > block.shared.size()) grid_.fail(thread, "sends outside of what is there");
    opened(thread, block, sent.mailbox);
    if (grid_.is(Schedule::kInTurn)) return deliver(sent);
    sent_.push_back(sent);
  }
  void deliver(const Sent& sent) {
    Block& block = grid_.blocks[static_cast<std::size_t>(sent.block)];
    if (block.threads_left == 0)
      throw GridError(grid_.entry.demangled + ": block " + std::to_string(sent.block) + " ends before all is there that was sent to it");
    store_bytes(block.shared.data() + sent.address, sent.value, 4);
    Mailbox& mailbox = block.mailboxes.find(sent.mailbox)->second;
    mailbox.missing -= 4;
    mailbox.settle();
  }
  void deliver_some(std::size_t threads_left) {
    if (grid_.is(Schedule::kRandom)) {
      for (std::size_t n = grid_.random() % 3; n > 0 && !sent_.empty(); --n) deliver_at(grid_.random() % sent_.size());
    } else if (++turns_of_sent_ >= threads_left) {
      turns_of_sent_ = 0;
      while (!sent_.empty()) deliver_at(sent_.size() - 1);
    }
  }
  void deliver_at(std::size_t index) {
    const Sent sent = sent_[index];
    sent_[index] = sent_.back();
    sent_.pop_back();
    deliver(sent);
  }

  // True when the thread was the last of its warp and goes on at once.
  bool meet(Thread& thread, const Instruction& i) {
    Warp& warp = warp_of(thread);
    Thread* const lanes = lanes_of(thread);
    thread.state = State::kInWarp;
    if (++warp.arrived < warp.lanes_left) return false;
    warp.arrived = 0;
    const int pc = thread.pc;
    for (int lane = 0; lane < kWarp; ++lane) {
      if (lanes[lane].state != State::kInWarp) grid_.fail(thread, "lane " + std::to_string(lane) + " has ended before");
      if (lanes[lane].pc != pc) grid_.fail(thread, "lane " + std::to_string(lane) + " takes part in another exchange");
    }
    if (i.kind == Kind::kShuffle)
      shuffle(thread, lanes, i);
    else
      multiply(lanes, i);
    for (int lane = 0; lane < kWarp; ++lane) {
      lanes[lane].pc = pc + 1;
      lanes[lane].state = State::kReady;
      if (&lanes[lane] != &thread) ready_.push_back(static_cast<int>(&lanes[lane] - grid_.threads.data()));
    }
    return true;
  }

  void shuffle(const Thread& thread, Thread* lanes, const Instruction& i) {
    Word values[kWarp];
    for (int lane = 0; lane < kWarp; ++lane) {
      values[lane] = lanes[lane].r[i.at[2]] & 0xFFFFFFFFU;
      if ((lanes[lane].r[i.at[4]] & 0x1F1FU) != 31 || (lanes[lane].r[i.at[5]] & 0xFFFFFFFFU) != 0xFFFFFFFFU)
        grid_.fail(thread, "only exchanges among whole warps are known");
    }
    for (int lane = 0; lane < kWarp; ++lane) {
      const int operand = static_cast<int>(lanes[lane].r[i.at[3]] & 31U);
      lanes[lane].r[i.at[0]] = values[i.mode == 1 ? lane ^ operand : operand];
      lanes[lane].r[i.at[1]] = 1;
    }
  }

  void multiply(Thread* lanes, const Instruction& i) {
    Word* registers[kWarp];
    for (int lane = 0; lane < kWarp; ++lane) registers[lane] = lanes[lane].r;
    multiply_m16n8k16(registers, i);
  }

  void finish(Thread& thread) {
    thread.state = State::kFinished;
    Block& block = grid_.block_of(thread);
    Warp& warp = warp_of(thread);
    thread.shared.drain([&](const Write& write) { store_bytes(block.shared.data() + write.address, write.value, write.bytes); });
    thread.global.drain([&](const Write& write) { block.writes.add(write); });
    --warp.lanes_left;
    --block.threads_left;
    if (warp.arrived > 0) grid_.fail(thread, "ends while other lanes of its warp wait for it");
    if (block.threads_left > 0 && block.arrived == block.threads_left) open_barrier(thread.block);
  }

  std::string stuck() const {
    for (const Thread& thread : grid_.threads) {
      if (thread.state == State::kFinished) continue;
      const Instruction& i = grid_.entry.code[static_cast<std::size_t>(thread.pc - (thread.state == State::kAtBarrier ? 1 : 0))];
      return "the kernel waits for ever: thread " + std::to_string(thread.index) + " of block " + std::to_string(thread.block) +
             (thread.state == State::kAtBarrier   ? " stands at a block barrier that others of its block never reach"
              : thread.state == State::kAtCluster ? " stands at a barrier that others of its cluster never reach"
                                                  : " takes part in an exchange that other lanes of its warp never reach") +
             ", line " + std::to_string(i.line);
    }
    return "the kernel waits for ever";
  }

  LaunchedGrid grid_;
  GridMemory memory_;
  std::vector<Word> registers_;
  std::vector<Warp> warps_;
  std::deque<int> ready_;
  std::vector<Cluster> clusters_;
  std::vector<Sent> sent_;
  std::size_t turns_of_sent_ = 0;
  unsigned barriers_of_first_ = 1;  // the first one ends the load of the weights
  int current_ = 0;
};

}  // namespace

Statistics run(const Entry& entry, const Launch& launch, const std::vector<unsigned char>& parameters, const MayAccess& may_access) {
  if (launch.threads < 1 || launch.threads > 1024 || launch.threads % kWarp != 0 || launch.blocks - launch.missing_blocks < 1)
    throw GridError("blocks of 32 to 1,024 threads in whole warps are run, not " + std::to_string(launch.blocks) + " of " +
                    std::to_string(launch.threads));
  if (launch.cluster < 1 || launch.blocks % launch.cluster != 0 || launch.missing_blocks % launch.cluster != 0)
    throw GridError(std::to_string(launch.blocks) + " blocks do not make clusters of " + std::to_string(launch.cluster));
  if (static_cast<int>(parameters.size()) != entry.parameter_bytes)
    throw GridError(entry.name + " takes " + std::to_string(entry.parameter_bytes) + " bytes of parameters, not " +
                    std::to_string(parameters.size()));
  return RunningGrid(entry, launch, parameters, may_access).run();
}

}  // namespace millrace::rnn::ptx
