#include "fpga/sbe/rtl/cycle_model.h"

#include <algorithm>
#include <array>

#include "core/base/index.h"
#include "fpga/sbe/phases/blocked_forward.h"
#include "fpga/sbe/rtl/engine_hardware.h"

namespace millrace {

namespace {

constexpr int64_t kSumCycles = 2;    // from a group's last sum that arrives to its first chunk
constexpr int64_t kSumsLeave = 5;    // from a visit's last chunk until its place takes other sums
constexpr int64_t kStoreCycles = 3;  // from a visit's last chunk to the first that may read its sums

// The sequencer: a chunk a cycle, and what each waits for.
class Walk {
 public:
  explicit Walk(const SbeConfig& config)
      : c_(config), ready_(to_size(config.streams * config.shape.features())), next_(to_size(config.shape.features())) {}

  struct Chunks {
    int64_t of_x = 0, first_hidden = 0, of_hidden = 0;
  };
  // All of a job, from `start` on; the cycle behind its last chunk.
  int64_t run(const BlockJob& job, const Chunks& chunks, bool loads_sums, int64_t start) {
    const int64_t groups = c_.groups(), visits = job.vectors * groups;
    clock_ = start;
    for (int64_t vector = job.first_vector; vector < job.first_vector + job.vectors; ++vector) {
      const int64_t stream = vector % c_.streams;
      const bool ends = chunks.first_hidden + chunks.of_hidden == c_.hidden_chunks();
      for (int64_t group = 0; group < groups; ++group) {
        if (loads_sums && visits <= 2) clock_ = std::max(clock_, fast_item(last_, visits - 1) + kStoreCycles);
        if (c_.sums_arrive) wait_for_sums(vector * groups + group, group);
        visit(chunks, stream, ends, group);
      }
      if (ends) std::copy(next_.begin(), next_.end(), ready_.begin() + stream * c_.shape.features());
    }
    return clock_;
  }

 private:
  // They come ahead of the walk, a word of the tail's units a cycle, into places whose sums of the batch before have left.
  void wait_for_sums(int64_t place, int64_t group) {
    left_.resize(to_size(c_.vectors() * c_.groups()));
    sums_ = std::max(sums_, fast_item(left_, place)) + divided_up(rows_of_group(c_, group) / c_.shape.gates, c_.tail_units);
    clock_ = std::max(clock_, sums_ + kSumCycles);
    sum_place_ = place;
  }

  void visit(const Chunks& chunks, int64_t stream, bool ends, int64_t group) {
    clock_ += chunks.of_x;
    for (int64_t i = 0; i < chunks.of_hidden; ++i) {
      const int64_t unit = (chunks.first_hidden + i + 1) * c_.columns - 1;
      clock_ = std::max(clock_, fast_item(ready_, stream * c_.shape.features() + std::min(unit, c_.shape.features() - 1)));
      if (ends && i + 1 == chunks.of_hidden) clock_ = std::max(clock_, tail_free_);
      ++clock_;
    }
    last_ = {clock_ - 1, last_[0]};
    if (c_.sums_arrive) fast_item(left_, sum_place_) = clock_ + kSumsLeave;
    if (!ends) return;
    const int64_t units = rows_of_group(c_, group) / c_.shape.gates;
    tail_free_ = clock_ - 1 + divided_up(units, c_.tail_units);
    if (c_.shape.projection > 0) {
      const int64_t all = clock_ + kBuiltLatency + (units - 1) / c_.tail_units + kProjectionLatency;
      for (int64_t feature = 0; feature < c_.shape.projection; ++feature) fast_item(next_, feature) = all + feature / c_.tail_units;
      return;
    }
    for (int64_t i = 0; i < units; ++i) fast_item(next_, group * c_.units_per_group() + i) = clock_ + kBuiltLatency + i / c_.tail_units;
  }

  const SbeConfig& c_;
  std::vector<int64_t> ready_;  // of each stream's h: when it can be multiplied
  std::vector<int64_t> next_;
  std::array<int64_t, 2> last_{-kStoreCycles, -kStoreCycles};
  std::vector<int64_t> left_;  // of each place of sums that arrive
  int64_t clock_ = 0, tail_free_ = 0, sums_ = 0, sum_place_ = 0;
};

}  // namespace

BuiltCycles built_cycles(const SbeConfig& config, int64_t memory_latency) {
  constexpr int kBatches = 8, kWarm = 4;
  const std::vector<ColumnBlock> blocks = blocks_of(config);
  const std::vector<BlockJob> jobs = jobs_of(config);
  const auto beats = [&](const ColumnBlock& block) {
    return divided_up(block.chunks * config.columns * config.shape.rows(), config.words_per_cycle);
  };
  std::vector<int64_t> slot_free(to_size(config.slots), -kAskCycles - memory_latency);
  Walk walk(config);
  int64_t bus = 0, array = 0, inputs = 0, warm = 0;
  std::array<int64_t, 2> input_free{};
  size_t slot = 0, input_slot = 0;
  BuiltCycles result;
  for (int batch = 0; batch < kBatches; ++batch) {
    bool walk_has_inputs = false;
    for (const BlockJob& job : jobs) {
      int64_t ready = array;
      Walk::Chunks chunks;
      std::vector<size_t> used;
      for (int64_t i = job.first_block; i < job.first_block + job.blocks; ++i) {
        const ColumnBlock& block = fast_item(blocks, i);
        bus = std::max(bus, slot_free[slot] + kAskCycles + memory_latency) + beats(block);
        ready = std::max(ready, bus);
        used.push_back(slot);
        slot = (slot + 1) % slot_free.size();
        chunks.of_x += block.chunks - block.hidden;
        chunks.of_hidden += block.hidden;
      }
      if (job.reads_pinned) {
        chunks.of_hidden = config.hidden_chunks();
        if (config.pinned == Pinned::kAll) chunks.of_x = config.input_chunks();
      }
      // Chunks of h in the blocks before, where each block is a job of its own.
      if (job.walks)
        for (int64_t i = 0; i < job.first_block; ++i) chunks.first_hidden += fast_item(blocks, i).hidden;
      // The walk's inputs come once for all its steps.
      if (chunks.of_x > 0 && !walk_has_inputs) {
        inputs = std::max(inputs, input_free[input_slot]) + kInputSlotCycles + config.vectors() * chunks.of_x;
        walk_has_inputs = job.walks;
      }
      if (chunks.of_x > 0) ready = std::max(ready, inputs);
      array = walk.run(job, chunks, /*loads_sums=*/job.first_block > 0, ready);
      for (const size_t at : used) slot_free[at] = array;
      if (chunks.of_x > 0 && !job.walks) {
        input_free[input_slot] = array;
        input_slot = 1 - input_slot;
      }
    }
    if (walk_has_inputs) {
      input_free[input_slot] = array;
      input_slot = 1 - input_slot;
    }
    if (batch == 0) result.first = array;
    if (batch + 1 == kWarm) warm = array;
  }
  result.batch = static_cast<double>(array - warm) / (kBatches - kWarm);
  return result;
}

}  // namespace millrace
