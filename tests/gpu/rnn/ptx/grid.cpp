#include "tests/gpu/rnn/ptx/grid.h"

#include <cmath>
#include <deque>
#include <string>

#include "tests/gpu/rnn/ptx/matrix.h"
#include "tests/gpu/rnn/ptx/threads.h"

namespace millrace::rnn::ptx {
namespace {

constexpr int kPublishes = 1;  // the thread whose chain is counted: of an LSTM's unit the lane that publishes, else any that owns one

class RunningGrid {
 public:
  RunningGrid(const Entry& entry, const Launch& launch, const std::vector<unsigned char>& parameters, const MayAccess& may_access)
      : entry_(entry), launch_(launch), parameters_(parameters), may_access_(may_access), random_(launch.seed) {
    const int blocks = launch.blocks - launch.missing_blocks;
    const std::size_t slots = entry.slots.size();
    const auto threads = static_cast<std::size_t>(launch.threads);
    blocks_.resize(static_cast<std::size_t>(blocks));
    threads_.resize(blocks_.size() * threads);
    warps_.resize(threads_.size() / kWarp);
    clusters_.resize(blocks_.size() / static_cast<std::size_t>(launch.cluster));
    registers_.resize(threads_.size() * slots);
    for (Block& block : blocks_) {
      // What was never written is a NaN in every format.
      block.shared.assign(static_cast<std::size_t>(entry.static_shared + launch.shared_bytes), 0xFF);
      block.threads_left = launch.threads;
    }
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      Thread& thread = threads_[t];
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
    std::size_t left = threads_.size();
    while (left > 0) {
      if (ready_.empty()) throw GridError(stuck());
      current_ = take();
      Thread& thread = threads_[static_cast<std::size_t>(current_)];
      const unsigned long long quantum = is(Schedule::kRandom) ? 1 + random_() % 48 : ~0ULL;
      const bool goes_on = step(thread, quantum);
      if (thread.state == State::kFinished)
        --left;
      else if (goes_on && is(Schedule::kLate))
        ready_.push_front(current_);  // the far end of the stack
      else if (goes_on)
        ready_.push_back(current_);
      show_relaxed(left);
      if (!sent_.empty()) deliver_some(left);
      if (statistics_.instructions > launch_.most_instructions) throw GridError("too many instructions: a loop without an end?");
    }
    for (Thread& thread : threads_) show_all(thread);
    for (Block& block : blocks_) block.writes.publish();
    statistics_.different_loads = different_.size();
    return statistics_;
  }

 private:
  bool is(Schedule schedule) const { return launch_.schedule == schedule; }
  // Whether the rules are used to the full just now.
  bool late() { return is(Schedule::kLate) || (is(Schedule::kRandom) && random_() % 2 == 0); }
  Block& block_of(const Thread& thread) { return blocks_[static_cast<std::size_t>(thread.block)]; }
  Warp& warp_of(const Thread& thread) { return warps_[static_cast<std::size_t>((thread.block * launch_.threads + thread.index) / kWarp)]; }
  Thread* lanes_of(const Thread& thread) {
    return &threads_[static_cast<std::size_t>(thread.block * launch_.threads + thread.index / kWarp * kWarp)];
  }

  [[noreturn]] void fail(const Thread& thread, const std::string& what) const {
    const Instruction& i = entry_.code[static_cast<std::size_t>(thread.pc)];
    throw GridError(entry_.demangled + ": thread " + std::to_string(thread.index) + " of block " + std::to_string(thread.block) +
                    ", line " + std::to_string(i.line) + " \"" + entry_.lines[static_cast<std::size_t>(i.line)] + "\": " + what);
  }

  // With even seeds some warps take several times as long as others.
  bool is_slow(int thread) const {
    return launch_.seed % 2 == 0 && ((static_cast<unsigned>(thread / kWarp) * 2654435761U + launch_.seed) >> 8U) % 8 == 0;
  }

  int take() {
    int chosen = 0;
    if (is(Schedule::kInTurn)) {
      chosen = ready_.front();
      ready_.pop_front();
      return chosen;
    }
    if (is(Schedule::kRandom)) {
      std::size_t drawn = random_() % ready_.size();
      if (is_slow(ready_[drawn])) drawn = random_() % ready_.size();
      std::swap(ready_[drawn], ready_.back());
    }
    chosen = ready_.back();
    ready_.pop_back();
    return chosen;
  }

  // Runs a thread until it waits, polls, ends or has had its turn; true when it is ready to go on.
  bool step(Thread& thread, unsigned long long quantum) {
    const Instruction* const code = entry_.code.data();
    Word* const r = thread.r;
    for (unsigned long long n = 0; n < quantum; ++n) {
      const Instruction& i = code[thread.pc];
      ++statistics_.instructions;
      if (&thread == threads_.data() + kPublishes) count(i);
      if (i.guard >= 0 && (r[i.guard] != 0) == i.guard_negated) {
        ++thread.pc;
        continue;
      }
      switch (i.kind) {
        case Kind::kAlu:
          statistics_.divisions += i.part == Part::kIntegerDivision ? 1 : 0;
          i.run(r, i);
          ++thread.pc;
          break;
        case Kind::kBranch: thread.pc = i.target; break;
        case Kind::kLoad: {
          load(thread, i);
          ++thread.pc;
          const bool polled = i.space == Space::kGlobal && (i.order == Order::kRelaxed || i.order == Order::kAcquire);
          if (polled && thread.polls++ % 4 == 3) return true;
          break;
        }
        case Kind::kStore:
          store(thread, i);
          ++thread.pc;
          break;
        case Kind::kFence:
          release(thread);
          acquire(thread);
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
          if (r[i.at[1]] != 1) fail(thread, "only mailboxes of one thread are known");
          block_of(thread).mailboxes[r[i.at[0]] & 0xFFFFFFU] = {};
          ++thread.pc;
          break;
        case Kind::kExpect: {
          Mailbox& mailbox = opened(thread, block_of(thread), r[i.at[1]]);
          if (mailbox.expects) fail(thread, "expects more before all is there that it expects");
          mailbox.expects = true;
          mailbox.missing += static_cast<std::int32_t>(r[i.at[2]]);
          mailbox.settle();
          ++thread.pc;
          break;
        }
        case Kind::kAwait: {
          const bool ended = opened(thread, block_of(thread), r[i.at[1]]).phase % 2 != (r[i.at[2]] & 1U);
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
    Chain& chain = statistics_.chain[barriers_of_first_ % 2];
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
    Block& block = block_of(thread);
    ++thread.pc;
    thread.state = State::kAtBarrier;
    ++block.arrived;
    if (block.arrived < block.threads_left) return false;
    open_barrier(thread.block);
    return false;
  }

  // Everybody is here: wakes all, the last one among them.
  void open_barrier(int number) {
    Block& block = blocks_[static_cast<std::size_t>(number)];
    block.arrived = 0;
    ++block.clock;
    const bool publishes = !late();
    unsigned acquired = 0;
    for (int t = 0; t < launch_.threads; ++t) {
      Thread& one = threads_[static_cast<std::size_t>(number * launch_.threads + t)];
      one.shared.drain([&](const Write& write) { store_bytes(block.shared.data() + write.address, write.value, write.bytes); });
      one.global.drain([&](const Write& write) {
        block.writes.add(write);
        block.old.forget(write.address);
      });
      acquired = std::max(acquired, one.acquired);
    }
    if (publishes) block.writes.publish();
    for (int t = 0; t < launch_.threads; ++t) {
      Thread& one = threads_[static_cast<std::size_t>(number * launch_.threads + t)];
      one.acquired = acquired;  // what one of them has acquired, all of them see
      if (one.state != State::kAtBarrier) continue;
      one.state = State::kReady;
      ready_.push_back(number * launch_.threads + t);
    }
  }

  // --- Clusters.

  Cluster& cluster_of(const Thread& thread) { return clusters_[static_cast<std::size_t>(thread.block / launch_.cluster)]; }

  void arrive_in_cluster(Thread& thread) {
    Cluster& cluster = cluster_of(thread);
    thread.awaits = cluster.barriers;
    const int first = thread.block / launch_.cluster * launch_.cluster;
    if (++cluster.arrived < launch_.cluster * launch_.threads) return;
    cluster.arrived = 0;
    ++cluster.barriers;
    for (int b = first; b < first + launch_.cluster; ++b) {
      Block& block = blocks_[static_cast<std::size_t>(b)];
      ++block.clock;
      for (int t = b * launch_.threads; t < (b + 1) * launch_.threads; ++t) {
        Thread& one = threads_[static_cast<std::size_t>(t)];
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
    if (found == block.mailboxes.end()) fail(thread, "no mailbox was opened at " + std::to_string(address & 0xFFFFFFU));
    return found->second;
  }

  void send(Thread& thread, const Instruction& i) {
    const auto to = static_cast<std::uint32_t>(thread.r[i.at[0]]), mailbox = static_cast<std::uint32_t>(thread.r[i.at[2]]);
    const int rank = static_cast<int>(to >> 24U) - 1;
    if (to >> 24U != mailbox >> 24U || rank < 0 || rank >= launch_.cluster) fail(thread, "sends to a block that is not of its cluster");
    const Sent sent{thread.block / launch_.cluster * launch_.cluster + rank, to & 0xFFFFFFU, mailbox & 0xFFFFFFU,
                    static_cast<std::uint32_t>(thread.r[i.at[1]])};
    Block& block = blocks_[static_cast<std::size_t>(sent.block)];
    if (block.threads_left == 0) fail(thread, "sends to a block that has ended");
    if (sent.address % 4 != 0 || sent.address + 4 > block.shared.size()) fail(thread, "sends outside of what is there");
    opened(thread, block, sent.mailbox);
    if (is(Schedule::kInTurn)) return deliver(sent);
    sent_.push_back(sent);
  }
  void deliver(const Sent& sent) {
    Block& block = blocks_[static_cast<std::size_t>(sent.block)];
    if (block.threads_left == 0)
      throw GridError(entry_.demangled + ": block " + std::to_string(sent.block) + " ends before all is there that was sent to it");
    store_bytes(block.shared.data() + sent.address, sent.value, 4);
    Mailbox& mailbox = block.mailboxes.find(sent.mailbox)->second;
    mailbox.missing -= 4;
    mailbox.settle();
  }
  void deliver_some(std::size_t threads_left) {
    if (is(Schedule::kRandom)) {
      for (std::size_t n = random_() % 3; n > 0 && !sent_.empty(); --n) deliver_at(random_() % sent_.size());
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
      if (lanes[lane].state != State::kInWarp) fail(thread, "lane " + std::to_string(lane) + " has ended before");
      if (lanes[lane].pc != pc) fail(thread, "lane " + std::to_string(lane) + " takes part in another exchange");
    }
    if (i.kind == Kind::kShuffle)
      shuffle(thread, lanes, i);
    else
      multiply(lanes, i);
    for (int lane = 0; lane < kWarp; ++lane) {
      lanes[lane].pc = pc + 1;
      lanes[lane].state = State::kReady;
      if (&lanes[lane] != &thread) ready_.push_back(static_cast<int>(&lanes[lane] - threads_.data()));
    }
    return true;
  }

  void shuffle(const Thread& thread, Thread* lanes, const Instruction& i) {
    Word values[kWarp];
    for (int lane = 0; lane < kWarp; ++lane) {
      values[lane] = lanes[lane].r[i.at[2]] & 0xFFFFFFFFU;
      if ((lanes[lane].r[i.at[4]] & 0x1F1FU) != 31 || (lanes[lane].r[i.at[5]] & 0xFFFFFFFFU) != 0xFFFFFFFFU)
        fail(thread, "only exchanges among whole warps are known");
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
    Block& block = block_of(thread);
    Warp& warp = warp_of(thread);
    thread.shared.drain([&](const Write& write) { store_bytes(block.shared.data() + write.address, write.value, write.bytes); });
    thread.global.drain([&](const Write& write) { block.writes.add(write); });
    --warp.lanes_left;
    --block.threads_left;
    if (warp.arrived > 0) fail(thread, "ends while other lanes of its warp wait for it");
    if (block.threads_left > 0 && block.arrived == block.threads_left) open_barrier(thread.block);
  }

  // --- Memory.

  void check(const Thread& thread, Word address, const Instruction& i) {
    const auto bytes = static_cast<std::size_t>(i.bytes) * i.count;
    if (address % bytes != 0) fail(thread, "an address that is no multiple of " + std::to_string(bytes));
    bool there = false;
    if (i.space == Space::kParameter)
      there = address + bytes <= parameters_.size();
    else if (i.space == Space::kShared)
      there = address + bytes <= block_of(thread).shared.size();
    else if (i.space == Space::kLocal)
      there = address + bytes <= thread.local.size();
    else
      there = may_access_(address, bytes);
    if (!there) fail(thread, "an access outside of what is there, at " + std::to_string(address));
  }

  void load(Thread& thread, const Instruction& i) {
    const Word address = thread.r[i.at[static_cast<std::size_t>(i.count)]] + static_cast<Word>(i.offset);
    const Word base =
        i.space == Space::kGlobal || i.space == Space::kParameter || i.space == Space::kLocal ? address : address & 0xFFFFFFFFU;
    check(thread, base, i);
    const bool strong = i.space == Space::kGlobal && (i.order == Order::kRelaxed || i.order == Order::kAcquire);
    if (strong) {
      ++statistics_.strong_loads;
      different_.insert((base << 16U) ^ static_cast<Word>(i.count) << 60U ^
                        static_cast<Word>(thread.block * launch_.threads + thread.index));
    }
    statistics_.weak_loads += i.space == Space::kGlobal && i.order == Order::kWeak ? 1 : 0;
    for (int e = 0; e < i.count; ++e) {
      if (strong && e > 0 && is(Schedule::kRandom)) show_relaxed_of_any();  // the elements need not be of one moment
      Word value = read(thread, i, base + static_cast<Word>(e * i.bytes));
      if (i.is_signed) {  // to the width of the register, which may be more than the element's
        const int shift = 64 - 8 * i.bytes;
        value = static_cast<Word>(static_cast<std::int64_t>(value << shift) >> shift);
      }
      thread.r[i.at[static_cast<std::size_t>(e)]] = value;
    }
    if (i.order == Order::kAcquire) acquire(thread);
  }

  Word read(Thread& thread, const Instruction& i, Word address) {
    const int bytes = i.bytes;
    Block& block = block_of(thread);
    switch (i.space) {
      case Space::kParameter: return load_bytes(parameters_.data() + address, bytes);
      case Space::kLocal: return load_bytes(thread.local.data() + address, bytes);
      case Space::kShared: {
        Word value = load_bytes(block.shared.data() + address, bytes);
        if (!thread.shared.empty()) thread.shared.overlay(address, bytes, value);
        return value;
      }
      case Space::kGlobal: break;
    }
    if (i.order == Order::kConstant) {
      if (written_.count(address / 4) > 0) fail(thread, "what the kernel writes is read through the path for what nobody writes");
      return load_bytes(at_address(address), bytes);
    }
    Word value = load_bytes(at_address(address), bytes);
    bool of_block = !block.writes.empty() && block.writes.overlay(address, bytes, value);
    if (!thread.global.empty()) of_block = thread.global.overlay(address, bytes, value) || of_block;
    if (!thread.relaxed.empty()) of_block = thread.relaxed.overlay(address, bytes, value) || of_block;
    // What the block has not written may be read as it was.
    if (!of_block && i.order == Order::kWeak && late()) value = block.old.read(address, bytes, value, thread.acquired, block.clock);
    return value;
  }

  void store(Thread& thread, const Instruction& i) {
    const Word address = thread.r[i.at[0]] + static_cast<Word>(i.offset);
    const Word base = i.space == Space::kShared ? address & 0xFFFFFFFFU : address;
    check(thread, base, i);
    for (int e = 0; e < i.count; ++e) {
      const Word at = base + static_cast<Word>(e * i.bytes);
      const Word value = i.bytes == 8 ? thread.r[i.at[static_cast<std::size_t>(1 + e)]]
                                      : thread.r[i.at[static_cast<std::size_t>(1 + e)]] & ((Word{1} << (8 * i.bytes)) - 1);
      write(thread, i, at, value);
    }
  }

  void write(Thread& thread, const Instruction& i, Word address, Word value) {
    Block& block = block_of(thread);
    if (i.space == Space::kLocal) return store_bytes(thread.local.data() + address, value, i.bytes);
    if (i.space == Space::kParameter) fail(thread, "parameters are not written");
    if (i.space == Space::kShared) {
      if (i.order != Order::kVolatile && (late() || !thread.shared.empty()))
        thread.shared.add(address, value, i.bytes);
      else
        store_bytes(block.shared.data() + address, value, i.bytes);
      return;
    }
    written_.insert(address / 4);
    if (i.order == Order::kWeak) {
      block.old.forget(address);
      if (is(Schedule::kInTurn))
        store_bytes(const_cast<unsigned char*>(at_address(address)), value, i.bytes);
      else
        thread.global.add(address, value, i.bytes);
      return;
    }
    if (i.order == Order::kRelease) release(thread);
    if (is(Schedule::kInTurn)) return store_bytes(const_cast<unsigned char*>(at_address(address)), value, i.bytes);
    thread.relaxed.add(address, value, i.bytes);
    relaxed_of_.push_back(static_cast<int>(&thread - threads_.data()));
  }

  // What the thread has written, and what it knows of its block behind barriers, is seen by who acquires.
  void release(Thread& thread) {
    block_of(thread).writes.publish();
    show_all(thread);
  }
  void acquire(Thread& thread) { thread.acquired = ++block_of(thread).clock; }

  void show(const Write& write) { store_bytes(const_cast<unsigned char*>(at_address(write.address)), write.value, write.bytes); }
  void show_all(Thread& thread) {
    thread.global.drain([&](const Write& write) { show(write); });
    thread.relaxed.drain([&](const Write& write) { show(write); });
  }

  // One relaxed write becomes visible: whichever a thread made, but no two of one address in another order.
  void show_relaxed_at(std::size_t index) {
    Thread& thread = threads_[static_cast<std::size_t>(relaxed_of_[index])];
    relaxed_of_[index] = relaxed_of_.back();
    relaxed_of_.pop_back();
    if (thread.relaxed.empty()) return;  // released meanwhile
    std::size_t chosen = is(Schedule::kRandom) ? random_() % thread.relaxed.size() : thread.relaxed.size() - 1;
    chosen = thread.relaxed.first_of_address(chosen);
    show(thread.relaxed.take_any(chosen));
  }
  void show_relaxed_of_any() {
    if (!relaxed_of_.empty() && random_() % 2 == 0) show_relaxed_at(random_() % relaxed_of_.size());
  }
  void show_relaxed(std::size_t threads_left) {
    if (relaxed_of_.empty()) return;
    if (is(Schedule::kRandom)) {
      const std::size_t some = relaxed_of_.size() / (threads_left + 1) + random_() % 2;
      for (std::size_t n = 0; n < some && !relaxed_of_.empty(); ++n) show_relaxed_at(random_() % relaxed_of_.size());
    } else if (++turns_ >= threads_left) {
      turns_ = 0;
      while (!relaxed_of_.empty()) show_relaxed_at(relaxed_of_.size() - 1);
    }
  }

  std::string stuck() const {
    for (const Thread& thread : threads_) {
      if (thread.state == State::kFinished) continue;
      const Instruction& i = entry_.code[static_cast<std::size_t>(thread.pc - (thread.state == State::kAtBarrier ? 1 : 0))];
      return "the kernel waits for ever: thread " + std::to_string(thread.index) + " of block " + std::to_string(thread.block) +
             (thread.state == State::kAtBarrier   ? " stands at a block barrier that others of its block never reach"
              : thread.state == State::kAtCluster ? " stands at a barrier that others of its cluster never reach"
                                                  : " takes part in an exchange that other lanes of its warp never reach") +
             ", line " + std::to_string(i.line);
    }
    return "the kernel waits for ever";
  }

  const Entry& entry_;
  const Launch& launch_;
  const std::vector<unsigned char>& parameters_;
  const MayAccess& may_access_;
  std::mt19937 random_;
  std::vector<Word> registers_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Block> blocks_;
  std::deque<int> ready_;
  std::vector<int> relaxed_of_;       // whose relaxed writes wait to be seen
  std::unordered_set<Word> written_;  // words of global memory
  std::unordered_set<Word> different_;
  std::vector<Cluster> clusters_;
  std::vector<Sent> sent_;
  std::size_t turns_ = 0, turns_of_sent_ = 0;
  unsigned barriers_of_first_ = 1;  // the first one ends the load of the weights
  int current_ = 0;
  Statistics statistics_;
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
