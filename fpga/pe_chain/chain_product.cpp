#include "fpga/pe_chain/chain_product.h"

#include <algorithm>
#include <numeric>

#include "core/base/index.h"
#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

LastSlice last_slice_of(const ChainProduct& product) {
  LastSlice last{.full_slices = product.outputs / product.elements, .outputs = product.outputs % product.elements, .parts = 1};
  while (last.outputs > 0 && last.parts < product.most_parts && last.outputs * (last.parts + 1) <= product.elements) ++last.parts;
  return last;
}

std::vector<int64_t> slice_feeds(const ChainProduct& product) {
  const LastSlice last = last_slice_of(product);
  std::vector<int64_t> feeds(to_size(last.full_slices), product.inputs);
  if (last.outputs > 0) feeds.push_back(divided_up(product.inputs, last.parts));
  return feeds;
}

int64_t feed_cycles(const ChainProduct& product) {
  const std::vector<int64_t> feeds = slice_feeds(product);
  return std::accumulate(feeds.begin(), feeds.end(), int64_t{0});
}

int64_t exposed_cycles(const ChainProduct& product, const StepWait& wait) {
  const LastSlice last = last_slice_of(product);
  int64_t deeper = 0;
  if (last.full_slices == 0 && last.parts > 1 && product.inputs == product.outputs) {
    const int64_t second = (last.parts - 1) * divided_up(product.inputs, last.parts);
    deeper = 2 * (second / wait.chains) + (second % wait.chains == wait.chains - 1 ? 1 : 0);
  }
  const std::vector<int64_t> feeds = slice_feeds(product);
  const int64_t all = feed_cycles(product);
  int64_t fed = 0, worst = 0;
  bool first = true;
  for (size_t slice = 0; slice < feeds.size(); ++slice) {
    fed += feeds[slice];
    const int64_t waits = wait.latency - (all - fed) - static_cast<int64_t>(slice) * product.elements;
    worst = first ? waits : std::max(worst, waits);
    first = false;
  }
  return std::max<int64_t>(0, worst + deeper - (wait.samples - 1) * all);
}

int64_t simulated_step_cycles(const ChainProduct& product, const StepWait& wait, int64_t steps) {
  const LastSlice last = last_slice_of(product);
  std::vector<int64_t> there(to_size(product.inputs), 0), made(there);
  int64_t time = 0, before = 0, cycles = 0;
  for (int64_t step = 0; step < steps; ++step) {
    int64_t base = 0;
    for (int64_t slice = 0; base < product.outputs; ++slice) {
      const bool full = slice < last.full_slices;
      const int64_t outputs = full ? product.elements : last.outputs, feeds = divided_up(product.inputs, full ? 1 : last.parts);
      for (int64_t cycle = 0; cycle < feeds; ++cycle) {
        for (int64_t input = cycle; input < product.inputs; input += feeds) time = std::max(time, item(there, input));
        ++time;
      }
      // Results relay down and back, as many a cycle as there are chains.
      for (int64_t output = 0; output < outputs; ++output) item(made, base + output) = time + wait.latency + 2 * (output / wait.chains);
      base += outputs;
    }
    std::swap(there, made);
    cycles = time - before;
    before = time;
  }
  return cycles;
}

}  // namespace millrace
