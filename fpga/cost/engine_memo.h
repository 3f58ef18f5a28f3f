// Engines and memories that a cost model was asked for, by what they follow from, as long as the period stays the same in cycles.
//
//   EngineMemo memo;
//   const SizedEngine sized = memo.at(cycles, {.layer = 3, .width = 2, .held = shape}, make_it);
//
// A search asks for the same few numbers of channels on many devices, and the end of a bisection for periods that are the same in whole
// cycles. What is kept goes when other numbers of cycles are asked for, so that no more is kept than the answers of two periods: two
// searches may go on at once. Thread safe: answers are copied. Internal to fpga/cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/base/index.h"
#include "core/device/cost_model.h"
#include "fpga/cost/generated_engines.h"

namespace millrace {

struct SizedEngine {
  GeneratedEngine engine;
  EngineMemory memory;  // that a search reserves; nothing where the engine does not keep up
};

class EngineMemo {
 public:
  struct Key {
    size_t layer = 0, width = 0;
    ConvolutionShape held = {};
    WeightsAt weights = {};
    StreamedWords words = StreamedWords::kFull;
    bool operator==(const Key&) const = default;
  };

  template <typename Make>
  SizedEngine at(int64_t cycles, const Key& key, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      if (cycles != latest_.cycles) std::swap(latest_, before_);
      if (cycles != latest_.cycles) latest_ = {cycles, {}};
      if (const auto found = latest_.known.find(key); found != latest_.known.end()) return found->second;
    }
    const SizedEngine made = make();
    const std::lock_guard lock(mutex_);
    for (Period* const period : {&latest_, &before_})
      if (cycles == period->cycles) period->known.emplace(key, made);
    return made;
  }

 private:
  struct Hash {
    size_t operator()(const Key& key) const {
      size_t sum = 0;
      for (const size_t part :
           {key.layer, key.width, to_size(key.held.inputs), to_size(key.held.outputs), to_size(key.weights.gradient_samples),
            to_size(key.weights.held_samples), static_cast<size_t>(key.weights.off_chip), static_cast<size_t>(key.weights.act_ram_outside),
            static_cast<size_t>(key.words)})
        sum = (sum ^ std::hash<size_t>()(part)) * size_t{0x9E3779B97F4A7C15} + (sum >> 29);
      return sum;
    }
  };

  struct Period {
    int64_t cycles = -1;
    std::unordered_map<Key, SizedEngine, Hash> known = {};
  };
  std::mutex mutex_;
  Period latest_, before_;
};

}  // namespace millrace
