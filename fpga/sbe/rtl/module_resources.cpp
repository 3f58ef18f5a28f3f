#include "fpga/sbe/rtl/module_resources.h"

#include <algorithm>

#include "fpga/common/cost/bram_packing.h"

namespace millrace {

BuiltResources built_resources(const SbeHardware& h) {
  constexpr int64_t kWord = 16, kSum = 32;
  const int64_t gates = gates_of(h.cell), widest = std::max(h.columns, h.units);
  const bool lstm = h.cell == CellKind::kLstm, gru = h.cell == CellKind::kGru;
  BuiltResources use;
  use.dsp = h.lanes * h.columns + h.projection * h.units + h.units * (lstm ? 4 : gru ? 3 : 0);
  use.weights = bram18_blocks({h.beat_words * kWord, h.weight_depth, h.lanes * h.columns / h.beat_words});
  use.inputs = bram18_blocks({h.columns * kWord, h.input_depth});
  use.hidden = bram18_blocks({h.units * kWord, 2 * h.state_depth, widest / h.units});
  if (lstm || gru) use.kept = bram18_blocks({h.units * (lstm ? kSum : kWord), h.kept_depth});
  use.outputs = bram18_blocks({h.units * kWord, h.output_depth});
  if (h.store_depth > kDistributedDepth) use.sums = bram18_blocks({(h.lanes + (gru ? h.lanes / gates : 0)) * kSum, h.store_depth});
  if (h.projection > 0) use.projection = bram18_blocks({h.beat_words * kWord, h.projection_depth, h.projection * h.units / h.beat_words});
  int64_t tables = 0;
  if (h.forms.sigmoid == SigmoidForm::kTable) tables += lstm ? 3 : gru ? 2 : 0;
  if (h.forms.tanh == TanhForm::kTable) tables += lstm ? 2 : gru || h.cell == CellKind::kVanillaTanh ? 1 : 0;
  use.tables = h.units * tables * bram18_blocks({kWord, 4096});
  use.bram18 = use.weights + use.inputs + use.hidden + use.kept + use.outputs + use.sums + use.tables + use.projection;
  return use;
}

}  // namespace millrace
