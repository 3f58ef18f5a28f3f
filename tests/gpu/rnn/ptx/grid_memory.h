// Internal to tests/gpu/rnn/ptx: the memory of a running grid, as weak as its schedule lets it be. See grid.h for the rules.
//
//   GridMemory memory(grid, parameters, may_access);
//   memory.load(thread, instruction);                  // into the thread's registers: what it may see just now
//   memory.show_relaxed(threads_left);                 // between turns: some relaxed writes reach the others
//
// It holds references to all it is given. Wrong accesses end in GridError.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "tests/gpu/rnn/ptx/threads.h"

namespace millrace::rnn::ptx {

class GridMemory {
 public:
  GridMemory(LaunchedGrid& grid, const std::vector<unsigned char>& parameters, const MayAccess& may_access)
      : grid_(grid), parameters_(parameters), may_access_(may_access) {}

  void load(Thread& thread, const Instruction& i) {
    const Word address = thread.r[i.at[static_cast<std::size_t>(i.count)]] + static_cast<Word>(i.offset);
    const Word base =
        i.space == Space::kGlobal || i.space == Space::kParameter || i.space == Space::kLocal ? address : address & 0xFFFFFFFFU;
    check(thread, base, i);
    const bool strong = i.space == Space::kGlobal && (i.order == Order::kRelaxed || i.order == Order::kAcquire);
    if (strong) {
      ++grid_.statistics.strong_loads;
      different_.insert((base << 16U) ^ static_cast<Word>(i.count) << 60U ^
                        static_cast<Word>(thread.block * grid_.launch.threads + thread.index));
    }
    grid_.statistics.weak_loads += i.space == Space::kGlobal && i.order == Order::kWeak ? 1 : 0;
    for (int e = 0; e < i.count; ++e) {
      if (strong && e > 0 && grid_.is(Schedule::kRandom)) show_relaxed_of_any();  // the elements need not be of one moment
      Word value = read(thread, i, base + static_cast<Word>(e * i.bytes));
      if (i.is_signed) {  // to the width of the register, which may be more than the element's
        const int shift = 64 - 8 * i.bytes;
        value = static_cast<Word>(static_cast<std::int64_t>(value << shift) >> shift);
      }
      thread.r[i.at[static_cast<std::size_t>(e)]] = value;
    }
    if (i.order == Order::kAcquire) acquire(thread);
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

  // What the thread has written, and what it knows of its block behind barriers, is seen by who acquires.
  void release(Thread& thread) {
    grid_.block_of(thread).writes.publish();
    show_all(thread);
  }
  void acquire(Thread& thread) { thread.acquired = ++grid_.block_of(thread).clock; }

  void show_all(Thread& thread) {
    thread.global.drain([&](const Write& write) { show(write); });
    thread.relaxed.drain([&](const Write& write) { show(write); });
  }

  void show_relaxed(std::size_t threads_left) {
    if (relaxed_of_.empty()) return;
    if (grid_.is(Schedule::kRandom)) {
      const std::size_t some = relaxed_of_.size() / (threads_left + 1) + grid_.random() % 2;
      for (std::size_t n = 0; n < some && !relaxed_of_.empty(); ++n) show_relaxed_at(grid_.random() % relaxed_of_.size());
    } else if (++turns_ >= threads_left) {
      turns_ = 0;
      while (!relaxed_of_.empty()) show_relaxed_at(relaxed_of_.size() - 1);
    }
  }

  // Strong loads by thread, address and width.
  std::size_t different_loads() const { return different_.size(); }

 private:
  void check(const Thread& thread, Word address, const Instruction& i) {
    const auto bytes = static_cast<std::size_t>(i.bytes) * i.count;
    if (address % bytes != 0) grid_.fail(thread, "an address that is no multiple of " + std::to_string(bytes));
    bool there = false;
    if (i.space == Space::kParameter)
      there = address + bytes <= parameters_.size();
    else if (i.space == Space::kShared)
      there = address + bytes <= grid_.block_of(thread).shared.size();
    else if (i.space == Space::kLocal)
      there = address + bytes <= thread.local.size();
    else
      there = may_access_(address, bytes);
    if (!there) grid_.fail(thread, "an access outside of what is there, at " + std::to_string(address));
  }

  Word read(Thread& thread, const Instruction& i, Word address) {
    const int bytes = i.bytes;
    Block& block = grid_.block_of(thread);
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
      if (written_.count(address / 4) > 0) grid_.fail(thread, "what the kernel writes is read through the path for what nobody writes");
      return load_bytes(at_address(address), bytes);
    }
    Word value = load_bytes(at_address(address), bytes);
    bool of_block = !block.writes.empty() && block.writes.overlay(address, bytes, value);
    if (!thread.global.empty()) of_block = thread.global.overlay(address, bytes, value) || of_block;
    if (!thread.relaxed.empty()) of_block = thread.relaxed.overlay(address, bytes, value) || of_block;
    // What the block has not written may be read as it was.
    if (!of_block && i.order == Order::kWeak && grid_.late()) value = block.old.read(address, bytes, value, thread.acquired, block.clock);
    return value;
  }

  void write(Thread& thread, const Instruction& i, Word address, Word value) {
    Block& block = grid_.block_of(thread);
    if (i.space == Space::kLocal) return store_bytes(thread.local.data() + address, value, i.bytes);
    if (i.space == Space::kParameter) grid_.fail(thread, "parameters are not written");
    if (i.space == Space::kShared) {
      if (i.order != Order::kVolatile && (grid_.late() || !thread.shared.empty()))
        thread.shared.add(address, value, i.bytes);
      else
        store_bytes(block.shared.data() + address, value, i.bytes);
      return;
    }
    written_.insert(address / 4);
    if (i.order == Order::kWeak) {
      block.old.forget(address);
      if (grid_.is(Schedule::kInTurn))
        store_bytes(const_cast<unsigned char*>(at_address(address)), value, i.bytes);
      else
        thread.global.add(address, value, i.bytes);
      return;
    }
    if (i.order == Order::kRelease) release(thread);
    if (grid_.is(Schedule::kInTurn)) return store_bytes(const_cast<unsigned char*>(at_address(address)), value, i.bytes);
    thread.relaxed.add(address, value, i.bytes);
    relaxed_of_.push_back(static_cast<int>(&thread - grid_.threads.data()));
  }

  void show(const Write& write) { store_bytes(const_cast<unsigned char*>(at_address(write.address)), write.value, write.bytes); }
  // One relaxed write becomes visible: whichever a thread made, but no two of one address in another order.
  void show_relaxed_at(std::size_t index) {
    Thread& thread = grid_.threads[static_cast<std::size_t>(relaxed_of_[index])];
    relaxed_of_[index] = relaxed_of_.back();
    relaxed_of_.pop_back();
    if (thread.relaxed.empty()) return;  // released meanwhile
    std::size_t chosen = grid_.is(Schedule::kRandom) ? grid_.random() % thread.relaxed.size() : thread.relaxed.size() - 1;
    chosen = thread.relaxed.first_of_address(chosen);
    show(thread.relaxed.take_any(chosen));
  }
  void show_relaxed_of_any() {
    if (!relaxed_of_.empty() && grid_.random() % 2 == 0) show_relaxed_at(grid_.random() % relaxed_of_.size());
  }

  LaunchedGrid& grid_;
  const std::vector<unsigned char>& parameters_;
  const MayAccess& may_access_;
  std::vector<int> relaxed_of_;       // whose relaxed writes wait to be seen
  std::unordered_set<Word> written_;  // words of global memory
  std::unordered_set<Word> different_;
  std::size_t turns_ = 0;
};

}  // namespace millrace::rnn::ptx
