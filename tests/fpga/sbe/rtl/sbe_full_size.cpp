// The paper's engine at full size under Verilator: LRCN's LSTM-256, 1,792 inputs, 1,024 multipliers, a batch of 64 steps, against the
// functional model bit by bit and the model of its cycles.
//
//   full_size_sbe 8                # blocks
#include MILLRACE_MODEL_HEADER

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "fpga/cosim/harness/sbe_bench.h"
#include "fpga/sbe/phases/blocked_forward.h"
#include "fpga/sbe/rtl/cycle_model.h"
#include "fpga/sbe/rtl/engine_hardware.h"
#include "fpga/sbe/timing.h"
#include "tests/fpga/sbe/phases/random_layer.h"

namespace millrace {
namespace {

int run(int64_t blocks) {
  const auto begin = std::chrono::steady_clock::now();
  const SbeConfig config{.shape = {1792, 256, 4},
                         .row_lanes = 1024,
                         .latency = kBuiltLatency,
                         .block_chunks = 2048 / blocks,
                         .inputs_share_bus = false,
                         .steps = 64};
  testing_support::Dice dice(1);
  FixedRecurrent layer = testing_support::random_layer(dice, CellKind::kLstm, 1792, 256);
  layer.forms = {};
  layer.input_weight = testing_support::random_elements(dice, 1024 * 1792, 400);  // sums that mostly fit
  layer.hidden_weight = testing_support::random_elements(dice, 1024 * 256, 400);
  const WeightImage image = weight_image(config, layer);
  const std::vector<int16_t> x = testing_support::random_elements(dice, 64 * 1792, 16384);
  RecurrentState state = zero_state(layer, 1);
  RecurrentCounters counters;
  BlockedTraffic traffic;
  const std::vector<int16_t> expected = blocked_forward(config, layer, image, {.steps = 64, .lengths = {}}, x, state, counters, traffic);
  EngineBench<MILLRACE_MODEL> bench;
  bench.load_biases(bias_words(layer), biases_of_unit(layer.cell) * config.tail_units);
  const std::vector<int16_t> inputs = input_chunks_of(config, layer, x);
  constexpr int64_t kMemoryLatency = 100;
  const EngineJob job{.settings = settings_of(config, layer, image, 0),
                      .valid_steps = {64},
                      .memory = image.words,
                      .inputs = inputs,
                      .columns = 1,
                      .units = 4,
                      .beat_words = 16,
                      .memory_latency = kMemoryLatency,
                      .most_cycles = 2'000'000};
  std::mt19937_64 random(1);
  const BenchResult result = bench.run(job, random);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const bool equal = result.finished && result.outputs == expected;
  const int64_t words = result.beats * config.words_per_cycle;
  const BuiltCycles cycles = built_cycles(config, kMemoryLatency);
  const int64_t measured = result.output_cycles.empty() ? 0 : result.output_cycles.back();
  fmt::print(
      "{{\"layer\": \"lrcn-lstm-256\", \"multipliers\": 1024, \"blocks\": {}, \"steps\": 64, \"memory_latency\": {}, \"bits_equal\": {}, "
      "\"cycles\": {}, \"modelled_cycles\": {}, \"planned_batch_cycles\": {:.0f}, \"words\": {}, \"planned_words\": {}, "
      "\"most_bursts_outstanding\": {}, \"seconds\": {:.1f}, \"processor_seconds\": {:.1f}}}\n",
      blocks, kMemoryLatency, equal, measured, cycles.first, batch_timing(config).cycles, words, batch_timing(config).weight_words,
      result.most_outstanding, seconds, static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
  const bool near = std::fabs(static_cast<double>(measured) / static_cast<double>(cycles.first) - 1) < 0.01;
  return equal && near && words == traffic.weight_words && words == batch_timing(config).weight_words ? 0 : 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::run(argc > 1 ? std::atoll(argv[1]) : 8); }
