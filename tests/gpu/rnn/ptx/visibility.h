// Internal to tests/gpu/rnn/ptx: who sees which write when. See grid.h for the rules.
//
// A weak write lies in its thread's buffer, behind a barrier in its block's, behind a release in memory. Buffers are lists of
// writes by address, the last one counts.
#pragma once

#include <cstring>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "tests/gpu/rnn/ptx/grid.h"

namespace millrace::rnn::ptx {

struct Write {
  Word address;
  Word value;
  int bytes;
};

// Writes in the order in which they were made.
class Writes {
 public:
  bool empty() const { return writes_.empty(); }
  void add(Word address, Word value, int bytes) { writes_.push_back({address, value, bytes}); }
  // Lays what is written of [address, address + bytes) over `value`; whether there was any.
  bool overlay(Word address, int bytes, Word& value) const {
    bool any = false;
    for (const Write& write : writes_) {
      if (write.address >= address + static_cast<Word>(bytes) || address >= write.address + static_cast<Word>(write.bytes)) continue;
      for (int b = 0; b < bytes; ++b) {
        const Word at = address + static_cast<Word>(b);
        if (at < write.address || at >= write.address + static_cast<Word>(write.bytes)) continue;
        const Word byte = write.value >> (8 * (at - write.address)) & 0xFFU;
        value = (value & ~(Word{0xFF} << (8 * b))) | byte << (8 * b);
        any = true;
      }
    }
    return any;
  }
  // Gives every write to `take` and forgets them.
  template <class Take>
  void drain(Take take) {
    for (const Write& write : writes_) take(write);
    writes_.clear();
  }
  Write take_any(std::size_t index) {
    const Write write = writes_[index];
    writes_.erase(writes_.begin() + static_cast<std::ptrdiff_t>(index));
    return write;
  }
  // The earliest write to the address of another.
  std::size_t first_of_address(std::size_t index) const {
    for (std::size_t i = 0; i < index; ++i)
      if (writes_[i].address == writes_[index].address) return i;
    return index;
  }
  std::size_t size() const { return writes_.size(); }

 private:
  std::vector<Write> writes_;
};

// Of a block: written, behind a barrier, and not yet published. By words of four bytes.
class BlockWrites {
 public:
  bool empty() const { return words_.empty(); }
  void add(const Write& write) {
    for (int b = 0; b < write.bytes; ++b) {
      const Word at = write.address + static_cast<Word>(b);
      Part& part = words_[at / 4];
      part.bytes[at % 4] = static_cast<unsigned char>(write.value >> (8 * b));
      part.written |= 1U << (at % 4);
    }
  }
  bool overlay(Word address, int bytes, Word& value) const {
    bool any = false;
    for (int b = 0; b < bytes; ++b) {
      const Word at = address + static_cast<Word>(b);
      const auto found = words_.find(at / 4);
      if (found == words_.end() || (found->second.written >> (at % 4) & 1U) == 0) continue;
      value = (value & ~(Word{0xFF} << (8 * b))) | static_cast<Word>(found->second.bytes[at % 4]) << (8 * b);
      any = true;
    }
    return any;
  }
  void publish() {
    for (const auto& [word, part] : words_)
      for (unsigned b = 0; b < 4; ++b)
        if ((part.written >> b & 1U) != 0) *reinterpret_cast<unsigned char*>(word * 4 + b) = part.bytes[b];
    words_.clear();
  }

 private:
  struct Part {
    unsigned char bytes[4];
    unsigned written;
  };
  std::unordered_map<Word, Part> words_;
};

// What a block's threads read weakly once and may read again unchanged until they acquire.
class OldValues {
 public:
  // The old value of an aligned element, when the reader (who acquired at `since`) may still see it; else remembers `fresh`.
  Word read(Word address, int bytes, Word fresh, unsigned since, unsigned now) {
    Seen& seen = seen_[address * 16 + static_cast<Word>(bytes)];
    if (seen.known && seen.at >= since) return seen.value;
    seen = {true, now, fresh};
    return fresh;
  }
  void forget(Word address) {
    for (const Word bytes : {1U, 2U, 4U, 8U}) seen_.erase(address * 16 + bytes);
  }

 private:
  struct Seen {
    bool known = false;
    unsigned at = 0;
    Word value = 0;
  };
  std::unordered_map<Word, Seen> seen_;
};

inline Word load_bytes(const unsigned char* from, int bytes) {
  Word value = 0;
  std::memcpy(&value, from, static_cast<std::size_t>(bytes));
  return value;
}
inline void store_bytes(unsigned char* to, Word value, int bytes) { std::memcpy(to, &value, static_cast<std::size_t>(bytes)); }
inline const unsigned char* at_address(Word address) { return reinterpret_cast<const unsigned char*>(address); }

}  // namespace millrace::rnn::ptx
