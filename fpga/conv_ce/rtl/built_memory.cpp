#include "fpga/conv_ce/rtl/built_memory.h"

#include <algorithm>

#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/conv_ce/rtl/module_resources.h"
#include "fpga/conv_ce/rtl/weight_streams.h"

namespace millrace {

namespace {

int64_t word_elements(const EngineParallelism& engine) { return engine.kernels_per_word * engine.taps(); }

int64_t parameter_words(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return std::max<int64_t>(streamed_words(engine, shape), 2);
}

}  // namespace

MemoryShape parameter_memory(const EngineParallelism& engine, const ConvolutionShape& shape, bool error_back) {
  return {word_elements(engine) * kElementBits, parameter_words(engine, shape), 1, error_back};
}

MemoryShape gradient_memory(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return {word_elements(engine) * kAccumulatorBits, parameter_words(engine, shape)};
}

MemoryShape act_ram_memory(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t planned_bits) {
  const int64_t sample = engine.groups_of_inputs(shape.inputs) * shape.height * shape.width;
  const int64_t beat_bits = engine.input_lanes * kElementBits;
  return {beat_bits, std::max(sample, divided_up(planned_bits, beat_bits))};
}

int64_t bram18_of(const MemoryShape& memory) { return memory.depth <= kLutramDepth ? 0 : bram18_blocks(memory); }

int64_t engine_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around) {
  const EngineMemories memories = engine_memories(engine, shape, around.error_block_rows);
  const EngineMemories of_gradients = around.gradient_samples == 1
                                          ? memories
                                          : engine_memories(engine, side_by_side(shape, around.gradient_samples), around.error_block_rows);
  int64_t blocks = forward_resources(engine, memories).bram18 + gradient_resources(engine, of_gradients).bram18;
  if (around.error_back) blocks += error_back_resources(engine, memories).bram18;
  if (around.error_back && engine.stride != 1)
    blocks += sorter_resources(engine.input_lanes, sorter_memory(engine.groups_of_inputs(shape.inputs), shape.width, engine.stride)).bram18;
  return blocks;
}

int64_t adapter_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around) {
  const auto blocks = [](const AdapterMemory& memory) {
    return bram18_of({kElementBits, int64_t{4} << memory.address, int64_t{1} << memory.banks});
  };
  int64_t all = 0;
  if (engine.input_lanes != around.lanes)
    all += (around.error_back ? 2 : 1) * blocks(adapter_memory(around.lanes, engine.input_lanes, shape.width));
  if (engine.output_lanes == around.lanes) return all;
  // Sums there, those of the devices before too, and errors back.
  const int64_t width = shape.out_width();
  return all + 2 * blocks(adapter_memory(around.lanes, engine.output_lanes, width)) +
         blocks(adapter_memory(around.lanes, engine.output_lanes, width * around.error_block_rows));
}

int64_t stream_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around, int64_t beat_bits) {
  const int64_t gradient_bits = word_elements(engine) * kAccumulatorBits;
  const int64_t reader = bram18_of({beat_bits, kStreamedBeats});
  int64_t blocks = (around.error_back ? 3 : 2) * reader + bram18_of({gradient_bits, 4 * engine.load_words() + 4, 2}) +
                   bram18_of({beat_bits, kWrittenBeats});
  const int64_t samples = around.gradient_samples;
  if (samples == 1) return blocks;
  blocks +=
      bram18_of({engine.input_lanes * kElementBits, 2 * samples * engine.groups_of_inputs(shape.inputs) * shape.height * shape.width});
  return blocks + bram18_of({engine.output_lanes * kElementBits, 2 * samples * engine.groups_of_outputs(shape.outputs)});
}

}  // namespace millrace
