#include "fpga/conv_ce/rtl/built_memory.h"

#include <algorithm>
#include <bit>

#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/conv_ce/rtl/module_resources.h"
#include "fpga/conv_ce/rtl/weight_streams.h"

namespace millrace {

namespace {

// `counted`: the same engine, or without the lanes of one side, whose memories are then none.
int64_t engine_blocks(const EngineParallelism& engine, const EngineParallelism& counted, const ConvolutionShape& shape,
                      const EngineSurroundings& around) {
  const EngineMemories memories = engine_memories(engine, shape, around.error_block_rows);
  const EngineMemories of_gradients = around.gradient_samples == 1
                                          ? memories
                                          : engine_memories(engine, side_by_side(shape, around.gradient_samples), around.error_block_rows);
  int64_t blocks = forward_resources(counted, memories).bram18 + gradient_resources(counted, of_gradients).bram18;
  if (around.error_back) blocks += error_back_resources(counted, memories).bram18;
  if (around.error_back && engine.stride != 1)
    blocks +=
        sorter_resources(counted.input_lanes, sorter_memory(engine.groups_of_inputs(shape.inputs), shape.width, engine.stride)).bram18;
  return blocks;
}

int64_t blocks_of(const AdapterMemory& memory) {
  return bram18_of({kElementBits, int64_t{4} << memory.address, int64_t{1} << memory.banks});
}

int64_t input_adapter_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around) {
  if (engine.input_lanes == around.lanes) return 0;
  return (around.error_back ? 2 : 1) * blocks_of(adapter_memory(around.lanes, engine.input_lanes, shape.width));
}

// Sums, those of the devices before too, and errors back.
int64_t output_adapter_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around) {
  if (engine.output_lanes == around.lanes) return 0;
  const int64_t width = shape.out_width();
  return 2 * blocks_of(adapter_memory(around.lanes, engine.output_lanes, width)) +
         blocks_of(adapter_memory(around.lanes, engine.output_lanes, width * around.error_block_rows));
}

}  // namespace

int64_t word_elements(const EngineParallelism& engine) { return engine.kernels_per_word * engine.taps(); }

MemoryShape parameter_memory(const EngineParallelism& engine, int64_t words, bool error_back) {
  return {word_elements(engine) * kElementBits, std::max<int64_t>(words, 2), 1, error_back};
}

MemoryShape gradient_memory(const EngineParallelism& engine, int64_t words) {
  return {word_elements(engine) * kAccumulatorBits, std::max<int64_t>(words, 2)};
}

MemoryShape parameter_memory(const EngineParallelism& engine, const ConvolutionShape& shape, bool error_back) {
  return parameter_memory(engine, streamed_words(engine, shape), error_back);
}

MemoryShape gradient_memory(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return gradient_memory(engine, streamed_words(engine, shape));
}

int64_t act_ram_words(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return engine.groups_of_inputs(shape.inputs) * shape.height * shape.width;
}

MemoryShape act_ram_memory(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t planned_bits) {
  const int64_t beat_bits = engine.input_lanes * kElementBits;
  return {beat_bits, std::max(act_ram_words(engine, shape), divided_up(planned_bits, beat_bits))};
}

int64_t bram18_of(const MemoryShape& memory) { return memory.depth <= kLutramDepth ? 0 : bram18_blocks(memory); }

int64_t least_bram18_of_bits(int64_t bits) { return divided_up(bits, kBram36Bits / 2); }

int64_t least_bram18_of(const MemoryShape& memory) { return memory.depth <= kLutramDepth ? 0 : least_bram18_of_bits(memory.bits()); }

int64_t engine_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around) {
  return engine_blocks(engine, engine, shape, around);
}

int64_t adapter_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around) {
  return input_adapter_blocks(engine, shape, around) + output_adapter_blocks(engine, shape, around);
}

int64_t blocks_of_input_lanes(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around) {
  EngineParallelism inputs = engine;
  inputs.output_lanes = 0;
  return engine_blocks(engine, inputs, shape, around) + input_adapter_blocks(engine, shape, around);
}

int64_t blocks_of_output_lanes(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around) {
  EngineParallelism outputs = engine;
  outputs.input_lanes = 0;
  return engine_blocks(engine, outputs, shape, around) + output_adapter_blocks(engine, shape, around);
}

int64_t least_stream_blocks(const EngineSurroundings& around, int64_t beat_bits) {
  return (around.error_back ? 3 : 2) * bram18_of({beat_bits, kStreamedBeats}) + bram18_of({beat_bits, kWrittenBeats});
}

int64_t stream_blocks(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around, int64_t beat_bits) {
  const int64_t gradient_bits = word_elements(engine) * kAccumulatorBits;
  int64_t blocks = least_stream_blocks(around, beat_bits) + bram18_of({gradient_bits, 4 * engine.load_words() + 4, 2});
  const int64_t samples = around.gradient_samples;
  if (samples == 1) return blocks;
  blocks +=
      bram18_of({engine.input_lanes * kElementBits, 2 * samples * engine.groups_of_inputs(shape.inputs) * shape.height * shape.width});
  return blocks + bram18_of({engine.output_lanes * kElementBits, 2 * samples * engine.groups_of_outputs(shape.outputs)});
}

double packing_luts(int64_t word_bits, int64_t beat_bits, int64_t unit_bits) {
  const auto held = static_cast<double>(word_bits + beat_bits);
  return held * (2 + static_cast<double>(std::bit_width(static_cast<uint64_t>(word_bits / unit_bits)))) / 2;
}

double least_packing_luts(int64_t tiles, const ConvolutionShape& shape, bool error_back) {
  const int64_t elements = kernels_per_word(tiles, shape.out_width()) * shape.kernel_h * shape.kernel_w;
  return 2 * packing_luts(elements * kAccumulatorBits, kLeastBeatBits, kElementBits) +
         (error_back ? 2 : 1) * packing_luts(elements * kElementBits, kLeastBeatBits, kElementBits);
}

FabricUse stream_fabric(const EngineParallelism& engine, const ConvolutionShape& shape, const EngineSurroundings& around,
                        int64_t beat_bits) {
  const int64_t kernel_bits = word_elements(engine) * kElementBits, gradient_bits = word_elements(engine) * kAccumulatorBits;
  FabricUse use;
  const auto add_packing = [&](int64_t word_bits, int64_t held_bits) {
    use.luts += packing_luts(word_bits, beat_bits, kElementBits);
    use.flip_flops += static_cast<double>(held_bits + beat_bits);
  };
  const auto add_memory = [&](int64_t width, int64_t depth) {
    if (depth <= kLutramDepth) use.luts += lutram_luts(depth, static_cast<double>(width));
  };
  for (int64_t reader = 0; reader < (around.error_back ? 3 : 2); ++reader) {
    const int64_t word_bits = reader == 0 ? gradient_bits : kernel_bits;
    add_packing(word_bits, 2 * word_bits);
    add_memory(beat_bits, kStreamedBeats);
  }
  add_memory(2 * gradient_bits, 4 * engine.load_words() + 4);
  add_packing(gradient_bits, gradient_bits);  // of what is written
  add_memory(beat_bits, kWrittenBeats);
  const int64_t samples = around.gradient_samples;
  if (samples == 1) return use;
  add_memory(engine.input_lanes * kElementBits, 2 * samples * engine.groups_of_inputs(shape.inputs) * shape.height * shape.width);
  add_memory(engine.output_lanes * kElementBits, 2 * samples * engine.groups_of_outputs(shape.outputs));
  return use;
}

}  // namespace millrace
