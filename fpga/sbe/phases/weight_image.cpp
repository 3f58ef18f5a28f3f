#include "fpga/sbe/phases/weight_image.h"

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {

void check(const SbeConfig& config, const FixedRecurrent& layer) {
  check(config);
  const GateMatrix shape = matrix_of(layer);
  if (config.shape != shape)
    fail(ErrorCode::kMismatch, "an engine for {} inputs, {} units, {} gates and {} features, a layer of {}, {}, {} and {}",
         config.shape.inputs, config.shape.hidden, config.shape.gates, config.shape.features(), shape.inputs, shape.hidden, shape.gates,
         shape.features());
}

WeightImage weight_image(const SbeConfig& config, const FixedRecurrent& layer) {
  check(config, layer);
  const int64_t inputs = config.input_chunks(), hidden = config.hidden_chunks(), columns = config.columns;
  WeightImage image;
  const auto element = [&](int64_t row, int64_t chunk, int64_t column) -> int16_t {
    const bool of_x = chunk < inputs;
    const int64_t at = (of_x ? chunk : chunk - inputs) * columns + column;
    const int64_t all = of_x ? layer.inputs : layer.features();
    if (at >= all) return 0;
    return fast_item(of_x ? layer.input_weight : layer.hidden_weight, row * all + at);
  };
  const auto add = [&](int64_t first_chunk, ColumnBlock block) {
    image.words.resize(to_size(rounded_up(static_cast<int64_t>(image.words.size()), kPageWords)));
    const auto begin = static_cast<int64_t>(image.words.size());
    for (int64_t group = 0; group < config.groups(); ++group)
      for (int64_t chunk = first_chunk; chunk < first_chunk + block.chunks; ++chunk)
        for (int64_t lane = 0; lane < rows_of_group(config, group); ++lane)
          for (int64_t column = 0; column < columns; ++column)
            image.words.push_back(element(group * config.row_lanes + lane, chunk, column));
    return ImageBlock{begin, static_cast<int64_t>(image.words.size()) - begin, block};
  };
  int64_t chunk = 0;
  for (const ColumnBlock& block : blocks_of(config)) {
    image.blocks.push_back(add(chunk, block));
    chunk += block.chunks;
  }
  if (chunk < inputs + hidden) image.pinned = add(chunk, {inputs + hidden - chunk, hidden});
  return image;
}

}  // namespace millrace
