#include "partitioner/hybrid/cut_loads.h"

#include <algorithm>

#include "core/base/index.h"
#include "core/plan/flows.h"

namespace millrace {
namespace {

double time_of(int64_t bits, int64_t bits_per_second) { return static_cast<double>(bits) / static_cast<double>(bits_per_second); }

// The last position of a run for which `good` holds, given that it holds for a first part of the run (or none).
template <typename Good>
int64_t last_good(const Progression& run, const Good& good) {
  if (good(run.end)) return run.end;
  if (!good(run.begin)) return run.begin - run.step;
  int64_t low = 0;                                  // known good
  int64_t high = (run.end - run.begin) / run.step;  // known bad
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (good(run.begin + middle * run.step) ? low : high) = middle;
  }
  return run.begin + low * run.step;
}

template <typename Good>
int64_t first_good(const Progression& run, const Good& good) {
  return last_good(run, [&](int64_t position) { return !good(position); }) + run.step;
}

// The part of a run that lies in [first, last]; empty when begin > end.
Progression clipped(Progression run, int64_t first, int64_t last) {
  if (run.begin < first) run.begin += (first - run.begin + run.step - 1) / run.step * run.step;
  if (run.end > last) run.end = run.begin + (last - run.begin) / run.step * run.step - (last < run.begin ? run.step : 0);
  return run;
}

}  // namespace

double seconds_on(const Link& link, const LinkBits& bits) {
  double seconds = std::max(time_of(bits.forward, link.forward_bits_per_second), time_of(bits.backward, link.backward_bits_per_second));
  if (link.shared_bits_per_second > 0) seconds = std::max(seconds, time_of(bits.sum(), link.shared_bits_per_second));
  return seconds;
}

CutLoads::CutLoads(const Chain& chain, int64_t element_bits) : chain_(&chain), element_bits_(element_bits) {
  const Graph& graph = chain.graph();
  groups_.resize(to_size(chain.groups()));
  // A tensor crosses every cut between its own group and the last group that reads it.
  const auto add_tensor = [&](int64_t tensor, int64_t made_in, const std::vector<int64_t>& consumers) {
    const int64_t elements = graph.shape_of(tensor).elements();
    const bool error = tensor != kNetworkInput && graph.node(tensor).error_needed;
    int64_t last = made_in;
    for (const int64_t consumer : consumers) last = std::max(last, graph.node(consumer).group);
    for (int64_t g = made_in + 1; g <= last; ++g) {
      GroupLoad& load = fast_item(groups_, g);
      load.before.forward += elements;
      if (error) load.before.backward += elements;
      const bool head_alone = std::none_of(consumers.begin(), consumers.end(), [&](int64_t consumer) {
        const Node& user = graph.node(consumer);
        return user.group > g || (user.group == g && &user != &chain.head_of(g));
      });
      if (head_alone && chain.divisible(g)) {
        load.input_plane_forward = graph.shape_of(tensor).plane();
        if (error) load.input_plane_backward = load.input_plane_forward;
      } else {
        load.inside.forward += elements;
        if (error) load.inside.backward += elements;
      }
    }
  };
  std::vector<int64_t> readers_of_input;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (std::find(node.inputs.begin(), node.inputs.end(), kNetworkInput) != node.inputs.end())
      readers_of_input.push_back(static_cast<int64_t>(n));
    add_tensor(static_cast<int64_t>(n), node.group, node.consumers);
  }
  add_tensor(kNetworkInput, -1, readers_of_input);
  for (int64_t g = 0; g < chain.groups(); ++g) {
    const Node& head = chain.head_of(g);
    GroupLoad& load = fast_item(groups_, g);
    load.sum_plane_forward = sum_shape(head).plane();
    if (head.error_needed) load.sum_plane_backward = load.sum_plane_forward;
  }
}

LinkBits CutLoads::at(int64_t position) const {
  if (position == chain_->end()) return {};
  const int64_t g = chain_->group_at(position);
  const GroupLoad& load = fast_item(groups_, g);
  LinkBits elements = load.before;
  if (position != chain_->begin_of(g)) {
    const LayerExtent& extent = chain_->extent_of(g);
    const Cut cut = chain_->cut_at(position);
    int64_t inputs = extent.inputs;  // channels that somebody downstream still reads
    int64_t outputs = cut.channel;   // channels that somebody upstream has begun
    if (extent.conv_groups > 1) {
      inputs -= cut.channel / (extent.outputs / extent.conv_groups) * (extent.inputs / extent.conv_groups);
    } else if (chain_->split_of(g) == Split::kInputChannels) {
      inputs -= cut.channel;
      outputs = cut.channel > 0 ? extent.outputs : cut.outputs;
    }
    elements.forward = load.inside.forward + inputs * load.input_plane_forward + outputs * load.sum_plane_forward;
    elements.backward = load.inside.backward + inputs * load.input_plane_backward + outputs * load.sum_plane_backward;
  }
  return {elements.forward * element_bits_, elements.backward * element_bits_};
}

void CutLoads::append_allowed(int64_t group, const Link& link, double seconds, int64_t quantum, int64_t first, int64_t last,
                              PositionSet& set) const {
  const auto good = [&](int64_t position) { return seconds_on(link, at(position)) <= seconds; };
  const auto append = [&](const Progression& run) {
    if (run.begin <= run.end) set.push_back(run);
  };
  const LayerExtent& extent = chain_->extent_of(group);
  for (const Progression& places : chain_->places_inside(group, quantum)) {
    const Progression run = clipped(places, first, last);
    if (run.begin > run.end) continue;
    if (extent.conv_groups > 1) {  // gains outputs while it loses inputs: either direction may rise or fall
      for (int64_t position = run.begin; position <= run.end; position += run.step)
        if (good(position)) append({position, position, 1});
      continue;
    }
    if (chain_->split_of(group) == Split::kOutputChannels) {
      append({run.begin, last_good(run, good), run.step});
      continue;
    }
    // In the first input channel outputs are begun one by one; after it they all are, and fewer inputs pass.
    const int64_t second_channel = chain_->begin_of(group) + extent.outputs;
    const Progression rising = clipped(run, first, second_channel - 1);
    if (rising.begin <= rising.end) append({rising.begin, last_good(rising, good), rising.step});
    const Progression falling = clipped(run, std::max(first, second_channel), last);
    if (falling.begin <= falling.end) append({first_good(falling, good), falling.end, falling.step});
  }
}

PositionSet CutLoads::allowed(const Link& link, double seconds, int64_t quantum, int64_t first, int64_t last) const {
  PositionSet set;
  for (int64_t g = chain_->group_at(std::max<int64_t>(first, 0)); g < chain_->groups() && chain_->begin_of(g) <= last; ++g) {
    const int64_t before = chain_->begin_of(g);
    if (before >= first && seconds_on(link, at(before)) <= seconds) set.push_back({before, before, 1});
    append_allowed(g, link, seconds, quantum, first, last, set);
  }
  if (first <= chain_->end() && chain_->end() <= last) set.push_back({chain_->end(), chain_->end(), 1});
  return set;
}

}  // namespace millrace
