#include "partitioner/hybrid/joint_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "partitioner/hybrid/stretch_load.h"

namespace millrace {
namespace {

// More labels than this at one cell, of several kinds of memory, are too many to keep.
constexpr size_t kMostLabels = 8;
constexpr double kNothing = 1e-6;  // of an element: rounding
constexpr double kMostElements = 1e15;

int64_t count_of(const Progression& run) { return (run.end - run.begin) / run.step + 1; }

}  // namespace

LinkBits HomeTraffic::with(LinkBits load, int64_t elements) const {
  const double moved = static_cast<double>(elements) * bits_per_element;
  load.forward += static_cast<int64_t>(std::ceil(moved * passes_per_sample));
  load.backward += static_cast<int64_t>(std::ceil(moved * gradients_per_sample));
  return load;
}

// One walk from the last device to the first, over places or over the cells between them.
struct JointSearch::Walk {
  Periods periods;
  bool over_cells = false;
  bool least = false;                    // rooms that no way undercuts
  bool sums = false;                     // labels hold the excess and the parameters before the place
  std::vector<std::vector<Cell>> cells;  // before every device, and after the last
  std::vector<Labels> labels;            // the same
  // Whole layers, per kind of device, with weights on chip and off.
  std::map<std::pair<size_t, bool>, std::vector<std::optional<ShardLoad>>> whole;
  int64_t work = 0;
  bool forgot = false;  // labels that were too many

  int64_t start_of(const Cell& cell) const { return over_cells ? cell.last : cell.first; }
};

JointSearch::JointSearch(const SegmentLoads& segments, const CutLoads& cuts, std::span<const Link> links, const CutSearch& search,
                         HomeTraffic traffic, bool allow_empty)
    : segments_(&segments), cuts_(&cuts), links_(links), search_(&search), traffic_(traffic), allow_empty_(allow_empty) {
  std::map<std::string, size_t> memories;
  for (int64_t d = 0; d < segments.devices(); ++d) {
    const CostModel& model = segments.model(d);
    const std::string& name = model.capacities()[model.parameter_memory()].name;
    memory_of_.push_back(memories.try_emplace(name, memories.size()).first->second);
    MILLRACE_CHECK(memory_of_.back() < kMostMemories, "a ring has more kinds of memory than the search keeps apart");
  }
}

const JointSearch::Weights& JointSearch::weights() const {
  std::call_once(weighed_, [this] { weigh(); });
  return weights_;
}

void JointSearch::weigh() const {
  const Chain& chain = segments_->chain();
  const Graph& graph = chain.graph();
  std::vector<double> least;
  std::map<size_t, bool> seen;
  bool alike = true;
  weights_.of_group.assign(to_size(chain.groups()), 0);
  for (int64_t d = 0; d < segments_->devices(); ++d) {
    const CostModel& model = segments_->model(d);
    const size_t memory = fast_item(memory_of_, d);
    if (memory == weights_.unit.size()) {
      weights_.unit.push_back(0);
      least.push_back(0);
    }
    if (!seen.try_emplace(segments_->kind_of(d), true).second) continue;
    for (int64_t g = 0; g < chain.groups(); ++g) {
      const ShardDemand demand = segments_->shard(d, g, chain.begin_of(g), chain.end_of(g), 1, false);
      // A layer of weights that some device neither stores nor keeps off chip.
      if (divides(chain.head_of(g).layer.operation) && demand.parameters <= 0 && !model.keeps_off_chip(chain.head_of(g))) alike = false;
      if (demand.parameters <= 0) continue;
      int64_t elements = 0;
      const int64_t node = fast_item(graph.groups(), g).head;
      for (const Block& block : chain.blocks(g, chain.begin_of(g), chain.end_of(g))) elements += weight_elements(graph, node, block);
      fast_item(weights_.of_group, g) = elements;
      const double unit = demand.parameters / static_cast<double>(std::max<int64_t>(elements, 1));
      least[memory] = least[memory] == 0 ? unit : std::min(least[memory], unit);
      weights_.unit[memory] = std::max(weights_.unit[memory], unit);
    }
  }
  for (size_t memory = 0; memory < weights_.unit.size(); ++memory)
    if (least[memory] != weights_.unit[memory]) weights_.uniform = false;
  for (double& unit : weights_.unit)
    if (unit == 0) unit = 1;
  int64_t before = 0;
  for (const int64_t of_group : weights_.of_group) {
    weights_.before.push_back(before);
    before += of_group;
  }
  weights_.before.push_back(before);
  weights_.adds_up = weights_.uniform && weights_.unit.size() == 1 && alike;
}

double JointSearch::storage_before(int64_t position) const {
  const Chain& chain = segments_->chain();
  const int64_t group = position == chain.end() ? chain.groups() : chain.group_at(position);
  int64_t weights = fast_item(weights_.before, group);
  if (group < chain.groups() && position > chain.begin_of(group)) {
    const double part =
        static_cast<double>(position - chain.begin_of(group)) / static_cast<double>(chain.end_of(group) - chain.begin_of(group));
    weights += std::llround(part * static_cast<double>(fast_item(weights_.of_group, group)));
  }
  return static_cast<double>(weights) * weights_.unit.front();
}

bool JointSearch::is_boundary(int64_t position) const {
  const Chain& chain = segments_->chain();
  return position == chain.end() || position == chain.begin_of(chain.group_at(position));
}

double JointSearch::elements_of(const Excess& excess) const {
  double elements = 0;
  for (size_t memory = 0; memory < weights_.unit.size(); ++memory) elements += excess[memory] / weights_.unit[memory];
  return elements;
}

// The most elements that a link carries on top of a load; below 0 when not even the load.
double JointSearch::spare(int64_t link, LinkBits load, double period) const {
  const Link& at = fast_item(links_, link);
  const auto carries = [&](int64_t elements) { return seconds_on(at, traffic_.with(load, elements)) <= period; };
  if (!carries(0)) return -1;
  if (!traffic_.allowed) return 0;
  // About as many as there are bits left; then exactly.
  const auto left = [&](int64_t bits_per_second, int64_t bits, double per_element) {
    return (period * static_cast<double>(bits_per_second) - static_cast<double>(bits)) / (per_element * traffic_.bits_per_element);
  };
  double guess = std::min(left(at.forward_bits_per_second, load.forward, traffic_.passes_per_sample),
                          left(at.backward_bits_per_second, load.backward, traffic_.gradients_per_sample));
  if (at.shared_bits_per_second > 0)
    guess = std::min(guess, left(at.shared_bits_per_second, load.sum(), traffic_.passes_per_sample + traffic_.gradients_per_sample));
  if (!(guess < kMostElements)) return kMostElements;
  int64_t low = 0;
  int64_t high = std::max<int64_t>(static_cast<int64_t>(guess), 0) + 1;
  for (int64_t step = 1; carries(high); step *= 2) {
    if (static_cast<double>(high) >= kMostElements) return kMostElements;
    low = high;
    high += step;
  }
  for (int64_t step = 1; high - low > 1; step *= 2) {
    const int64_t next = std::max(high - step, low + 1);
    if (carries(next)) {
      low = next;
      break;
    }
    high = next;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (carries(middle) ? low : high) = middle;
  }
  return static_cast<double>(low);
}

// About `cells` of them, half spread over the layers evenly, half by the layers' weights: a layer's weights are what memory is short of,
// and where it has few, its activations are. Whole channels are looked at before parts of them, which two devices would hold.
std::vector<JointSearch::Cell> JointSearch::cells_of(int64_t link, const PositionSet& places, double period, int64_t cells,
                                                     bool& every_place) const {
  const Chain& chain = segments_->chain();
  const auto group_of = [&](int64_t position) { return position == chain.end() ? chain.groups() : chain.group_at(position); };
  // Cuts between the groups of a grouped convolution come one by one; what they load the link with is linear all the same.
  PositionSet runs;
  for (const Progression& run : places) {
    const int64_t group = group_of(run.begin);
    const bool inside = group < chain.groups() && run.begin > chain.begin_of(group);
    const bool joins = inside && !runs.empty() && run.begin == run.end && chain.extent_of(group).conv_groups > 1 &&
                       group_of(runs.back().begin) == group && runs.back().begin > chain.begin_of(group) &&
                       runs.back().end + 1 == run.begin;
    if (joins) {
      runs.back().end = run.end;
    } else {
      runs.push_back(run);
    }
  }
  int64_t all = 0;
  double weights = 0;
  std::map<int64_t, int64_t> layers;  // the group and how many places it has here
  const auto weights_in = [&](int64_t group, int64_t count) {
    return static_cast<double>(fast_item(weights_.of_group, group)) * static_cast<double>(count) /
           static_cast<double>(chain.end_of(group) - chain.begin_of(group));
  };
  for (const Progression& run : runs) {
    const int64_t group = group_of(run.begin);
    all += count_of(run);
    if (group == chain.groups() || run.begin == chain.begin_of(group)) continue;
    layers[group] += count_of(run);
    weights += weights_in(group, count_of(run) * run.step);
  }
  every_place = all <= 2 * cells;
  std::vector<Cell> result;
  const auto push = [&](int64_t first, int64_t last, int64_t group) {
    const LinkBits at_first = cuts_->at(first);
    const LinkBits at_last = cuts_->at(last);
    const LinkBits least{std::min(at_first.forward, at_last.forward), std::min(at_first.backward, at_last.backward)};
    const double spare_first = spare(link, at_first, period);
    result.push_back({first, last, group, spare_first, first == last ? spare_first : spare(link, least, period), storage_before(first),
                      storage_before(last)});
  };
  for (const Progression& run : runs) {
    const int64_t group = group_of(run.begin);
    int64_t size = 1;  // places in a cell
    if (!every_place && run.begin != run.end) {
      const auto count = static_cast<double>(count_of(run));
      const double by_layer = count / static_cast<double>(layers[group]) / static_cast<double>(layers.size());
      const double by_weight = weights > 0 ? weights_in(group, count_of(run) * run.step) / weights : by_layer;
      const double wanted = std::max(1.0, static_cast<double>(cells) * 0.5 * (by_layer + by_weight));
      size = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(count / wanted)));
    }
    const int64_t outputs = chain.extent_of(std::min(group, chain.groups() - 1)).outputs;
    const bool by_channel = group < chain.groups() && run.step == 1 && chain.extent_of(group).conv_groups == 1 &&
                            chain.split_of(group) == Split::kInputChannels && size > outputs;
    if (by_channel) size = size / outputs * outputs;
    int64_t first = run.begin;
    while (first <= run.end) {
      int64_t next = first + size * run.step;
      if (by_channel) {
        const int64_t begin = chain.begin_of(group);
        next = first + size - (first - begin) % outputs;  // the next whole channel
      }
      if (next > run.end) {
        // The last place is one to look at, too.
        if (first < run.end) push(first, run.end - run.step, group);
        push(run.end, run.end, group);
        break;
      }
      push(first, next - run.step, group);
      first = next;
    }
  }
  return result;
}

void JointSearch::extend(int64_t device, int64_t start, int64_t end, const ShardDemand& demand, bool off_chip, Walk& walk) const {
  const auto d = to_size(device);
  const CostModel& model = segments_->model(device);
  const size_t memory = memory_of_[d];
  const double unit = weights_.unit[memory];
  const double fixed = demand.amounts[model.parameter_memory()];
  double room = std::max(0.0, model.capacities()[model.parameter_memory()].amount - fixed);
  if (weights_.uniform) room = std::floor(room / unit) * unit;
  const Cell& from = fast_item(walk.cells[d], start);
  const double spare = device == 0 ? kMostElements : walk.over_cells ? from.spare_most : from.spare_first;
  const std::vector<Label>& after = fast_item(walk.labels[d + 1], end);
  std::vector<Label>& labels = fast_item(walk.labels[d], start);
  const size_t kinds = weights_.unit.size();
  for (size_t l = 0; l < after.size(); ++l) {
    Label label{after[l].excess, static_cast<int32_t>(end), static_cast<int32_t>(l)};
    if (walk.sums) {
      const Cell& to = fast_item(walk.cells[d + 1], end);
      if (off_chip) label.excess[memory] -= to.before_last - from.before_first;
      label.excess[memory] = std::max(label.excess[memory] - room, from.before_first);
      if ((label.excess[memory] - from.before_last) / unit > spare + kNothing) continue;
    } else {
      label.excess[memory] += demand.parameters - room;
      if (label.excess[memory] < kNothing * unit) label.excess[memory] = 0;
      if (elements_of(label.excess) > spare + kNothing) continue;
    }
    const auto covers = [&](const Label& a, const Label& b) {
      for (size_t k = 0; k < kinds; ++k)
        if (a.excess[k] > b.excess[k]) return false;
      return true;
    };
    if (std::any_of(labels.begin(), labels.end(), [&](const Label& known) { return covers(known, label); })) continue;
    std::erase_if(labels, [&](const Label& known) { return covers(label, known); });
    if (labels.size() < kMostLabels) {
      labels.push_back(label);
    } else if (walk.over_cells) {
      for (size_t k = 0; k < kinds; ++k) labels.back().excess[k] = std::min(labels.back().excess[k], label.excess[k]);
    } else {
      walk.forgot = true;
    }
  }
}

void JointSearch::pass_device(int64_t device, Walk& walk) const {
  const auto d = to_size(device);
  const Chain& chain = segments_->chain();
  const CostModel& model = segments_->model(device);
  const double period = walk.periods.compute;
  const std::vector<Cell>& starts = walk.cells[d];
  const std::vector<Cell>& ends = walk.cells[d + 1];
  walk.labels[d].assign(starts.size(), {});
  const auto whole = [&](int64_t group, bool off_chip) -> const ShardLoad& {
    auto& known = walk.whole[{segments_->kind_of(device), off_chip}];
    known.resize(to_size(chain.groups()));
    std::optional<ShardLoad>& load = fast_item(known, group);
    if (!load) load = segments_->load(device, group, chain.begin_of(group), chain.end_of(group), period, off_chip);
    return *load;
  };
  // What a stretch holds of its last layer, where it ends inside it.
  std::array<std::vector<std::optional<ShardLoad>>, 2> heads;
  for (auto& known : heads) known.resize(ends.size());
  const auto head = [&](size_t end, bool off_chip) -> ShardLoad& {
    std::optional<ShardLoad>& load = heads[off_chip ? 1 : 0][end];
    const Cell& cell = ends[end];
    if (!load) load = segments_->load(device, cell.group, chain.begin_of(cell.group), cell.first, period, off_chip);
    return *load;
  };
  for (size_t start = 0; start < starts.size(); ++start) {
    const int64_t from = walk.start_of(starts[start]);
    const int64_t group = from == chain.end() ? chain.groups() : chain.group_at(from);
    int64_t off_chip_group = segments_->takes_all_off_chip() ? group : chain.groups();  // stretches that reach into it
    while (off_chip_group < chain.groups() && !model.keeps_off_chip(chain.head_of(off_chip_group))) ++off_chip_group;
    const int64_t off_chip_after = off_chip_group == chain.groups() ? chain.end() : chain.begin_of(off_chip_group);
    std::array<bool, 2> too_long{};
    const StretchLoad nothing(*segments_, device, period, {});
    std::array<StretchLoad, 2> sums{nothing, nothing};  // of the layers passed
    std::array<int64_t, 2> summed{group, group};
    for (size_t end = 0; end < ends.size(); ++end) {
      const Cell& to = ends[end];
      if (walk.labels[d + 1][end].empty()) continue;
      if (to.first <= from) {
        // Nothing, or, between overlapping cells, next to nothing.
        const bool possible = walk.over_cells ? starts[start].first < to.last || (allow_empty_ && starts[start].first <= to.last)
                                              : allow_empty_ && to.first == from && is_boundary(from);
        if (possible) extend(device, static_cast<int64_t>(start), static_cast<int64_t>(end), {}, to.last > off_chip_after, walk);
        continue;
      }
      const bool off_chip = to.first > off_chip_after;
      const size_t mode = off_chip ? 1 : 0;
      if (too_long[mode]) {
        if (off_chip || off_chip_after == chain.end()) break;
        continue;
      }
      ++walk.work;
      std::optional<ShardDemand> demand;  // in the least room
      if (to.group == group) {
        ShardLoad part = segments_->load(device, group, from, to.first, period, off_chip);
        demand = walk.least ? sums[mode].least_of_all(&part) : sums[mode].smallest(&part);
      } else {
        for (; summed[mode] < to.group; ++summed[mode]) {
          const bool part = summed[mode] == group && from > chain.begin_of(group);
          sums[mode].add(part ? segments_->load(device, group, from, chain.end_of(group), period, off_chip)
                              : whole(summed[mode], off_chip));
        }
        const bool inside = to.first < chain.end() && to.first > chain.begin_of(to.group);
        ShardLoad* const last = inside ? &head(end, off_chip) : nullptr;
        demand = walk.least ? sums[mode].least_of_all(last) : sums[mode].smallest(last);
      }
      if (!demand) {
        too_long[mode] = true;
        continue;
      }
      extend(device, static_cast<int64_t>(start), static_cast<int64_t>(end), *demand, off_chip, walk);
    }
  }
}

JointAnswer JointSearch::at(const Periods& periods, int64_t cells, Rooms rooms) const {
  JointAnswer answer;
  static_cast<void>(weights());
  const int64_t devices = segments_->devices();
  const std::vector<PositionSet> places = search_->ends_at(periods, {});
  answer.every_place = true;
  if (static_cast<int64_t>(places.size()) != devices) return answer;
  const Chain& chain = segments_->chain();
  Walk walk;
  walk.periods = periods;
  walk.least = rooms == Rooms::kLeastOfAll;
  walk.cells.resize(to_size(devices + 1));
  const double all = weights_.adds_up ? storage_before(chain.end()) : 0;
  walk.cells.front() = {{0, 0, 0, kMostElements, kMostElements, 0, 0}};
  walk.cells.back() = {{chain.end(), chain.end(), chain.groups(), 0, 0, all, all}};
  for (int64_t d = 1; d < devices; ++d) {
    bool every_place = true;
    fast_item(walk.cells, d) = cells_of(d - 1, fast_item(places, d - 1), periods.link, cells, every_place);
    answer.every_place = answer.every_place && every_place;
  }
  const auto least_excess = [&]() -> const Label* {
    walk.labels.assign(to_size(devices + 1), {});
    Label at_end;
    if (walk.sums) at_end.excess[0] = all;
    walk.labels.back() = {{at_end}};
    for (int64_t d = devices - 1; d >= 0; --d) pass_device(d, walk);
    const std::vector<Label>& left = walk.labels.front().front();
    const auto least = std::min_element(left.begin(), left.end(),
                                        [&](const Label& a, const Label& b) { return elements_of(a.excess) < elements_of(b.excess); });
    return least == left.end() ? nullptr : &*least;
  };
  const auto nothing_left = [&](const Label* label) { return label != nullptr && elements_of(label->excess) <= kNothing; };
  const Label* label = least_excess();
  answer.verdict = nothing_left(label) ? JointAnswer::Verdict::kFound : JointAnswer::Verdict::kImpossible;
  for (int64_t d = 1; label != nullptr && d < devices; ++d) {
    const auto cell = to_size(label->next_cell);
    answer.cuts.push_back(fast_item(walk.cells, d)[cell].first);
    label = &fast_item(fast_item(walk.labels, d)[cell], label->next_label);
  }
  if (answer.verdict == JointAnswer::Verdict::kImpossible && !(answer.every_place && !walk.forgot)) {
    walk.over_cells = true;
    walk.sums = weights_.adds_up;
    if (nothing_left(least_excess())) answer.verdict = JointAnswer::Verdict::kUndecided;
  }
  if (walk.least && answer.verdict == JointAnswer::Verdict::kFound) answer.verdict = JointAnswer::Verdict::kUndecided;
  answer.work = walk.work;
  return answer;
}

}  // namespace millrace
