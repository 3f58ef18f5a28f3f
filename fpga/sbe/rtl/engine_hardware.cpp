#include "fpga/sbe/rtl/engine_hardware.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/recurrence/rtl/rtl_modules.h"
#include "fpga/sbe/phases/blocked_forward.h"

namespace millrace {

namespace {

int64_t widest(const SbeConfig& config) { return std::max(config.columns, config.tail_units); }
int64_t last_rows(const SbeConfig& config) { return rows_of_group(config, config.groups() - 1); }
int64_t pinned_chunks(const SbeConfig& config) {
  return config.pinned == Pinned::kNone     ? 0
         : config.pinned == Pinned::kHidden ? config.hidden_chunks()
                                            : config.input_chunks() + config.hidden_chunks();
}
int64_t streamed_chunks(const SbeConfig& config) { return config.pinned == Pinned::kAll ? 0 : config.block_chunks; }
int64_t input_slot(const SbeConfig& config) {
  return config.vectors() * (config.pinned == Pinned::kAll ? config.input_chunks() : config.block_chunks);
}

}  // namespace

std::vector<std::pair<std::string_view, int64_t>> parameters_of(const SbeHardware& h) {
  const int64_t gates = gates_of(h.cell);
  return {{"CELL", h.cell == CellKind::kLstm          ? 0
                   : h.cell == CellKind::kGru         ? 1
                   : h.cell == CellKind::kVanillaRelu ? 2
                                                      : 3},
          {"GATES", gates},
          {"BIASES", biases_of_unit(h.cell)},
          {"SIGMOID", static_cast<int64_t>(h.forms.sigmoid)},
          {"TANH", static_cast<int64_t>(h.forms.tanh)},
          {"LANES", h.lanes},
          {"COLUMNS", h.columns},
          {"UNITS", h.units},
          {"BEAT_WORDS", h.beat_words},
          {"SLOTS", h.slots},
          {"STREAMS", h.streams},
          {"WEIGHT_DEPTH", h.weight_depth},
          {"INPUT_DEPTH", h.input_depth},
          {"STATE_DEPTH", h.state_depth},
          {"KEPT_DEPTH", h.kept_depth},
          {"BIAS_DEPTH", h.bias_depth},
          {"STORE_DEPTH", h.store_depth},
          {"STORE_BLOCK", h.store_depth > kDistributedDepth ? 1 : 0},
          {"SUMS", h.sums ? 1 : 0},
          {"PROJECTION", h.projection},
          {"PROJECTION_DEPTH", h.projection_depth},
          {"OUTPUT_DEPTH", h.output_depth}};
}

namespace {

// Answers no, or fails where a message is wanted. Explorations ask of every point.
bool refused(bool says, const auto& fails) {
  if (says) fails();
  return false;
}
bool is_power_of_two(int64_t value) { return (value & (value - 1)) == 0; }

// Lanes, columns and tail units, whatever the batch and its blocks.
bool array_buildable(const SbeConfig& config, bool says) {
  if (widest(config) % std::min(config.columns, config.tail_units) != 0 || !is_power_of_two(config.columns))
    return refused(says, [&] {
      fail(ErrorCode::kUnavailable, "{} columns and {} tail units: columns are a power of two, and one divides the other", config.columns,
           config.tail_units);
    });
  if (config.words_per_cycle < 4 || config.words_per_cycle > 32 || !is_power_of_two(config.words_per_cycle))
    return refused(says,
                   [&] { fail(ErrorCode::kUnavailable, "{} words a beat: a bus has 64, 128, 256 or 512 bits", config.words_per_cycle); });
  const bool projects = config.shape.projection > 0;
  struct Division {
    int64_t divisor, amount;
    const char *what, *of;
  };
  for (const Division& one :
       {Division{config.tail_units, config.units_per_group(), "tail units", "a group's units"},
        Division{widest(config), config.shape.features(), "columns or tail units", "the features of h"},
        Division{config.words_per_cycle, config.multipliers(), "words a beat", "the weights of a cycle"},
        Division{config.words_per_cycle, last_rows(config) * config.columns, "words a beat", "the last group's weights of a cycle"},
        Division{config.tail_units, projects ? config.shape.hidden : 0, "tail units", "the hidden units"},
        Division{config.words_per_cycle, config.projection_multipliers(), "words a beat", "the projection's weights of a cycle"}})
    if (one.amount % one.divisor != 0)
      return refused(says, [&] {
        fail(ErrorCode::kUnavailable, "{} {} do not divide {} of {}: no engine is generated for them; choose a divisor", one.divisor,
             one.what, one.of, one.amount);
      });
  return true;
}

bool batch_buildable(const SbeConfig& config, bool says) {
  if (config.inputs_share_bus)
    return refused(says, [&] {
      fail(ErrorCode::kUnavailable,
           "x and h over the memory's bus: it can be modelled, but no engine is generated for it, for it is never faster than streams "
           "of their own; set inputs_share_bus to false");
    });
  const int64_t deepest =
      std::max({config.groups() * (config.slots * streamed_chunks(config) + pinned_chunks(config)), 2 * input_slot(config),
                config.vectors() * config.groups(), 2 * config.vectors() * config.shape.features()});
  if (deepest > 65535)
    return refused(says, [&] { fail(ErrorCode::kUnavailable, "a memory of {} words: engines count them in sixteen bits", deepest); });
  return true;
}

}  // namespace

void check_buildable(const SbeConfig& config) {
  check(config);
  array_buildable(config, true);
  batch_buildable(config, true);
}

bool array_can_be_built(const SbeConfig& config) { return array_buildable(config, false); }

bool can_be_built(const SbeConfig& config) {
  check(config);
  return array_buildable(config, false) && batch_buildable(config, false);
}

SbeHardware hardware_of(const SbeConfig& config, CellKind cell, const GateForms& forms) {
  check_buildable(config);
  return {.cell = cell,
          .forms = forms,
          .sums = config.sums_arrive,
          .lanes = config.row_lanes,
          .columns = config.columns,
          .units = config.tail_units,
          .beat_words = config.words_per_cycle,
          .slots = config.slots,
          .streams = config.streams,
          .weight_depth = config.groups() * (config.slots * streamed_chunks(config) + pinned_chunks(config)),
          .input_depth = std::max<int64_t>(1, 2 * input_slot(config)),
          .state_depth = config.streams * config.shape.features() / widest(config),
          .kept_depth = config.streams * config.shape.hidden / config.tail_units,
          .bias_depth = config.shape.hidden / config.tail_units,
          .store_depth = config.vectors() * config.groups(),
          .output_depth = std::max(kLeastOutputDepth, 2 * config.vectors() * config.shape.features() / config.tail_units),
          .projection = config.shape.projection,
          .projection_depth = config.shape.projection > 0 ? config.shape.hidden / config.tail_units : 1};
}

SbeSettings settings_of(const SbeConfig& config, const FixedRecurrent& layer, const WeightImage& image, int64_t address) {
  check_buildable(config);
  check(config, layer);
  MILLRACE_CHECK(address % (2 * kPageWords) == 0, "an image at {}", address);
  const std::vector<ColumnBlock> blocks = blocks_of(config);
  const std::vector<BlockJob> jobs = jobs_of(config);
  const int64_t vectors = config.vectors(), groups = config.groups(), beat = config.words_per_cycle;
  SbeSettings s;
  s.streams = config.streams;
  s.steps = config.steps;
  s.groups = groups;
  s.block_chunks = streamed_chunks(config);
  int64_t last_input = 0;
  for (const ColumnBlock& block : blocks)
    if (block.hidden == 0) {
      ++s.input_jobs;
      last_input = block.chunks;
    }
  s.input_last_chunks = last_input;
  s.walk_pinned = config.pinned != Pinned::kNone;
  const auto all = static_cast<int64_t>(blocks.size());
  s.walk_parts = s.walk_pinned ? 1 : all - s.input_jobs;
  s.walk_last_chunks = s.walk_pinned ? pinned_chunks(config) : blocks.back().chunks;
  s.lead = config.pinned == Pinned::kAll      ? config.input_chunks()
           : config.pinned == Pinned::kHidden ? 0
                                              : item(blocks, s.input_jobs).chunks - item(blocks, s.input_jobs).hidden;
  s.resident = jobs.back().vectors == vectors && static_cast<int64_t>(jobs.size()) == s.input_jobs + 1;
  s.units = config.shape.features();
  s.state_units = config.streams * s.units;
  s.group_words = config.units_per_group() / config.tail_units;
  s.last_group_words = last_rows(config) / config.shape.gates / config.tail_units;
  s.feature_words = s.units / config.tail_units;
  s.stream_words = config.shape.hidden / config.tail_units;
  s.stream_places = s.units / widest(config);
  s.slot_words = groups * s.block_chunks;
  s.pinned_place = config.slots * s.slot_words;
  s.input_slot_words = input_slot(config);
  s.input_store_distance = std::min<int64_t>(3, vectors * groups);
  s.walk_store_distance = std::min<int64_t>(3, (s.resident ? vectors : config.streams) * groups);
  s.input_job_words = vectors * s.block_chunks;
  s.input_last_words = vectors * last_input;
  s.input_walk_words = vectors * s.lead;
  s.stream_blocks = all;
  s.stream_input_blocks = s.input_jobs;
  s.stream_walks = s.resident ? 1 : config.steps;
  s.stream_last_chunks = blocks.empty() ? 0 : blocks.back().chunks;
  s.group_beats = config.multipliers() / beat;
  s.last_group_beats = last_rows(config) * config.columns / beat;
  const int64_t chunk_beats = (groups - 1) * s.group_beats + s.last_group_beats;
  s.block_beats = s.block_chunks * chunk_beats;
  s.last_block_beats = s.stream_last_chunks * chunk_beats;
  s.pinned_beats = pinned_chunks(config) * chunk_beats;
  s.address = address;
  s.stride = image.blocks.size() > 1 ? 2 * image.blocks[1].first : 0;
  s.pinned_address = address + 2 * image.pinned.first;
  s.sum_shift = layer.formats.sum_shift(layer.cell);
  s.hidden_shift = layer.projection > 0 ? 0 : kGateFraction - layer.formats.hidden;  // units that are projected keep all their bits
  s.projection_shift = layer.projection > 0 ? layer.projection_shift() : 0;
  return s;
}

std::vector<int16_t> input_chunks_of(const SbeConfig& config, const FixedRecurrent& layer, std::span<const int16_t> x) {
  std::vector<int16_t> chunks;
  const auto add = [&](int64_t first, int64_t count) {
    for (int64_t vector = 0; vector < config.vectors(); ++vector)
      for (int64_t at = first * config.columns; at < (first + count) * config.columns; ++at) {
        const int64_t row = vector % config.streams * config.steps + vector / config.streams;
        chunks.push_back(at < layer.inputs ? item(x, row * layer.inputs + at) : int16_t{0});
      }
  };
  if (config.pinned == Pinned::kAll) add(0, config.input_chunks());
  int64_t first = 0;
  for (const ColumnBlock& block : blocks_of(config)) {
    add(first, block.chunks - block.hidden);
    first += block.chunks;
  }
  return chunks;
}

std::vector<int16_t> sum_words_of(const SbeConfig& config, const FixedRecurrent& layer, std::span<const int32_t> sums) {
  std::vector<int16_t> words;
  for (int64_t vector = 0; vector < config.vectors(); ++vector) {
    const int64_t place = vector % config.streams * config.steps + vector / config.streams;
    for (const int32_t sum : sums.subspan(to_size(place * layer.rows()), to_size(layer.rows()))) {
      words.push_back(static_cast<int16_t>(sum));
      words.push_back(static_cast<int16_t>(sum >> 16));
    }
  }
  return words;
}

std::vector<int16_t> projection_words(const SbeConfig& config, const FixedRecurrent& layer) {
  std::vector<int16_t> words;
  for (int64_t first = 0; first < layer.hidden; first += config.tail_units)
    for (int64_t feature = 0; feature < layer.projection; ++feature)
      for (int64_t unit = first; unit < first + config.tail_units; ++unit)
        words.push_back(item(layer.projection_weight, feature * layer.hidden + unit));
  return words;
}

std::vector<int32_t> bias_words(const FixedRecurrent& layer) {
  std::vector<int32_t> words;
  const int64_t gates = layer.gates();
  for (int64_t unit = 0; unit < layer.hidden; ++unit) {
    for (int64_t gate = 0; gate < gates; ++gate) words.push_back(item(layer.bias, unit * gates + gate));
    if (!layer.hidden_bias.empty()) words.push_back(item(layer.hidden_bias, unit));
  }
  return words;
}

std::vector<RtlModule> sbe_engine_modules() {
  std::vector<RtlModule> modules = sbe_rtl_modules();
  modules.insert(modules.end(), recurrence_rtl_modules().begin(), recurrence_rtl_modules().end());
  for (const RtlModule& module : common_rtl_modules())
    for (const char* used : {"round_to_element.sv", "stream_fifo.sv", "deep_fifo.sv", "column_memory.sv"})
      if (module.file == used) modules.push_back(module);
  return modules;
}

}  // namespace millrace
