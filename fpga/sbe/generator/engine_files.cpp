#include "fpga/sbe/generator/engine_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "fpga/common/generator/memory_images.h"
#include "fpga/common/generator/testbench_modules.h"
#include "fpga/common/generator/text_template.h"
#include "fpga/recurrence/rtl/rtl_modules.h"
#include "fpga/sbe/generator/engine_templates.h"
#include "fpga/sbe/phases/blocked_forward.h"
#include "fpga/sbe/rtl/cycle_model.h"
#include "fpga/sbe/timing.h"

namespace millrace {

namespace {

std::string settings_text(const SbeSettings& s) {
  std::string text;
  const auto set = [&](const char* name, int bits, int64_t value) { text += fmt::format("      .{}({}'d{}),\n", name, bits, value); };
  set("streams", 16, s.streams);
  set("steps", 16, s.steps);
  set("groups", 16, s.groups);
  set("input_jobs", 16, s.input_jobs);
  set("block_chunks", 16, s.block_chunks);
  set("input_last_chunks", 16, s.input_last_chunks);
  set("walk_parts", 16, s.walk_parts);
  set("walk_last_chunks", 16, s.walk_last_chunks);
  set("lead", 16, s.lead);
  set("resident", 1, s.resident ? 1 : 0);
  set("walk_pinned", 1, s.walk_pinned ? 1 : 0);
  set("units", 16, s.units);
  set("state_units", 32, s.state_units);
  set("group_words", 16, s.group_words);
  set("last_group_words", 16, s.last_group_words);
  set("feature_words", 16, s.feature_words);
  set("stream_words", 16, s.stream_words);
  set("stream_places", 16, s.stream_places);
  set("slot_words", 16, s.slot_words);
  set("pinned_place", 16, s.pinned_place);
  set("input_slot_words", 16, s.input_slot_words);
  set("input_store_distance", 2, s.input_store_distance);
  set("walk_store_distance", 2, s.walk_store_distance);
  set("input_job_words", 32, s.input_job_words);
  set("input_last_words", 32, s.input_last_words);
  set("input_walk_words", 32, s.input_walk_words);
  set("stream_blocks", 16, s.stream_blocks);
  set("stream_input_blocks", 16, s.stream_input_blocks);
  set("stream_walks", 16, s.stream_walks);
  set("stream_last_chunks", 16, s.stream_last_chunks);
  set("group_beats", 16, s.group_beats);
  set("last_group_beats", 16, s.last_group_beats);
  set("block_beats", 32, s.block_beats);
  set("last_block_beats", 32, s.last_block_beats);
  set("pinned_beats", 32, s.pinned_beats);
  set("stride", 64, s.stride);
  set("sum_shift", 5, s.sum_shift);
  set("hidden_shift", 4, s.hidden_shift);
  set("projection_shift", 5, s.projection_shift);
  return text;
}

}  // namespace

void write_engine(const std::filesystem::path& folder, const SbeConfig& config, const FixedRecurrent& layer, const EngineVectors& vectors,
                  const EngineTestbench& testbench) {
  const SbeHardware hardware = hardware_of(config, layer.cell, layer.forms);
  WeightImage image = weight_image(config, layer);
  const SbeSettings settings = settings_of(config, layer, image, /*address=*/0);
  const int64_t batch_inputs = config.vectors() * layer.inputs;
  const int64_t batch_sums = config.sums_arrive ? config.vectors() * layer.rows() : 0;
  MILLRACE_CHECK(static_cast<int64_t>(vectors.sums.size()) == vectors.batches * batch_sums, "{} sums", vectors.sums.size());
  MILLRACE_CHECK(static_cast<int64_t>(vectors.x.size()) == vectors.batches * batch_inputs, "{} inputs", vectors.x.size());

  std::vector<int16_t> inputs, states;
  RecurrentCounters counters;
  BlockedTraffic traffic;
  for (int64_t batch = 0; batch < vectors.batches; ++batch) {
    const auto x = std::span(vectors.x).subspan(to_size(batch * batch_inputs), to_size(batch_inputs));
    RecurrentRun run = vectors.run;
    run.sums = std::span(vectors.sums).subspan(to_size(batch * batch_sums), to_size(batch_sums));
    const std::vector<int16_t> chunks = config.sums_arrive ? sum_words_of(config, layer, run.sums) : input_chunks_of(config, layer, x);
    inputs.insert(inputs.end(), chunks.begin(), chunks.end());
    RecurrentState state = zero_state(layer, config.streams);
    const std::vector<int16_t> h = blocked_forward(config, layer, image, run, x, state, counters, traffic);
    for (int64_t vector = 0; vector < config.vectors(); ++vector) {
      const int64_t row = vector % config.streams * config.steps + vector / config.streams;
      states.insert(states.end(), h.begin() + row * layer.features(), h.begin() + (row + 1) * layer.features());
    }
  }
  image.words.resize(to_size(rounded_up(static_cast<int64_t>(image.words.size()), kPageWords)));
  std::vector<int16_t> lengths;
  for (int64_t stream = 0; stream < config.streams; ++stream) lengths.push_back(static_cast<int16_t>(vectors.run.valid_steps(stream)));

  const int64_t units = biases_of_unit(layer.cell);
  std::string parameters;
  for (const auto& [name, value] : parameters_of(hardware)) parameters += fmt::format("      .{}({}),\n", name, value);
  const auto number = [](int64_t value) { return fmt::format("{}", value); };
  const int64_t bias_bits = config.tail_units * units * kAccumulatorBits;
  const TemplateValues common = {{"BIAS_BITS", number(bias_bits)},
                                 {"BEAT_BITS", number(config.words_per_cycle * kElementBits)},
                                 {"X_BITS", number(hardware.words_of_input() * kElementBits)},
                                 {"H_BITS", number(config.tail_units * kElementBits)},
                                 {"KEPT_BITS", number(config.tail_units * kAccumulatorBits)}};
  const auto with = [&common](TemplateValues values) {
    values.insert(common.begin(), common.end());
    return values;
  };
  const BatchTiming timing = batch_timing(config);
  const BuiltCycles cycles = built_cycles(config, testbench.memory_latency);
  const auto write = [&folder](const std::string& file, std::string_view text) { write_atomically(folder / file, text); };
  for (const char* part : {"rtl", "images", "vectors"}) make_folders(folder / part);
  for (const RtlModule& module : sbe_engine_modules()) write(fmt::format("rtl/{}", module.file), module.text);
  write("rtl/millrace_sbe.sv",
        filled(kEngineTop,
               with({{"WHAT", fmt::format("{} inputs, {} hidden units, {} streams of {} steps a batch; {} multipliers.", layer.inputs,
                                          layer.hidden, config.streams, config.steps, config.multipliers())},
                     {"ORIGIN", fmt::format("{} words of weights from the memory outside for a batch; {:.0f} cycles a batch (modelled).",
                                            timing.weight_words, cycles.batch)},
                     {"PARAMETERS", parameters},
                     {"SETTINGS", settings_text(settings)},
                     {"PINNED_BYTES", number(settings.pinned_address)}})));
  write("images/weights.hex", hex_words<int16_t>(image.words, config.words_per_cycle));
  write("images/biases.hex", hex_words<int32_t>(bias_words(layer), config.tail_units * units));
  const std::vector<int16_t> projection = projection_words(config, layer);
  write("images/projection.hex", hex_words<int16_t>(projection, config.words_per_cycle));
  write(fmt::format("images/{}", kGateTableFile), gate_table_text());
  write("vectors/x.hex", hex_words<int16_t>(inputs, hardware.words_of_input()));
  write("vectors/h.hex", hex_words<int16_t>(states, config.tail_units));
  write("vectors/h.hex.mask", hex_words<int16_t>(std::vector<int16_t>(states.size(), -1), config.tail_units));
  write("vectors/lengths.hex", hex_words<int16_t>(lengths, 1));

  const bool pinned = config.pinned != Pinned::kNone;
  const int64_t beats = (vectors.batches * timing.weight_words + image.pinned.words) / config.words_per_cycle;
  const TemplateValues values = with(
      {{"BATCHES", number(vectors.batches)},
       {"LATENCY", number(testbench.memory_latency)},
       {"SEED", number(testbench.seed)},
       {"MODULES", std::string(kTestbenchModules)},
       {"BIAS_WORDS", number(layer.hidden / config.tail_units)},
       {"STREAMS", number(config.streams)},
       {"PINNED", pinned ? "1" : "0"},
       {"PROJECTION_BEATS", number(static_cast<int64_t>(projection.size()) / config.words_per_cycle)},
       {"PROJECTION_BANKS", number(std::max<int64_t>(1, config.projection_multipliers() / config.words_per_cycle))},
       {"IMAGE_BEATS", number(static_cast<int64_t>(image.words.size()) / config.words_per_cycle)},
       {"H_WORDS", number(static_cast<int64_t>(states.size()) / config.tail_units)},
       {"X_WORDS", number(static_cast<int64_t>(inputs.size()) / hardware.words_of_input())},
       {"WEIGHT_BEATS", number(beats)},
       {"MOST_CYCLES", number(20 * vectors.batches * static_cast<int64_t>(cycles.batch + static_cast<double>(cycles.first)) + 100'000)}});
  TemplateValues bench = values;
  bench["PLAYER"] = inputs.empty() ? "  assign x_tvalid = 1'b0;\n  assign x_tdata = '0;\n" : filled(kEnginePlayer, values);
  write("testbench.sv", filled(kEngineTestbench, bench));
}

}  // namespace millrace
