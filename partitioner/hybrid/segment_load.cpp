#include "partitioner/hybrid/segment_load.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/index.h"
#include "core/device/no_such_engine.h"
#include "core/plan/off_chip.h"
#include "partitioner/hybrid/stretch_load.h"

namespace millrace {
namespace {

// Shorter periods are tried, and found too short, long before so many samples are between a device and the ring's end.
constexpr double kMostSamplesUnderWay = 1e5;
// Of the latency to the ring's end and back: every step is a kind of device more to search.
constexpr double kLatencySteps = 4;

// Samples that micro-batches add to what a device holds whose rows stream. An update lets the errors of a micro-batch wait while its
// samples go forward: all but the one under way. A device that takes turns holds back as many micro-batches as its window lets it, and what
// it sends comes all at once.
std::vector<double> waiting_samples(const PlanTask& task, int64_t micro_batch, const std::vector<int64_t>& windows) {
  const auto samples = static_cast<double>(micro_batch);
  std::vector<double> waiting(task.models.size(), samples - 1);
  int64_t held_back = 0;  // by devices downstream
  for (size_t d = task.models.size(); d-- > 0;) {
    if (!task.models[d]->dedicated_engines()) held_back = std::max(held_back, windows[d]);
    waiting[d] += samples * static_cast<double>(held_back);
  }
  bool turns_upstream = false;
  for (size_t d = 0; d < task.models.size(); ++d) {
    if (turns_upstream && waiting[d] < 2 * samples - 1) waiting[d] += samples;
    turns_upstream = turns_upstream || !task.models[d]->dedicated_engines();
  }
  // Before an update all goes forward that its window lets, and no error comes back meanwhile.
  const bool some_turn = turns_upstream;
  if (task.options.accounting == Accounting::kFull && some_turn)
    for (size_t d = 0; d < task.models.size(); ++d) waiting[d] = std::max(waiting[d], samples * static_cast<double>(windows[d] - 1));
  return waiting;
}

// The most units that a device takes, of which `low` are taken for sure and `high` are not: looked for near a guess between them, or of
// which nothing is known.
template <typename Takes>
int64_t most_units(int64_t low, int64_t high, int64_t guess, bool is_near, const Takes& takes) {
  const bool upwards = takes(guess);
  (upwards ? low : high) = guess;
  for (int64_t step = 1; is_near && high - low > 1; step *= 2) {
    const int64_t next = upwards ? std::min(low + step, high - 1) : std::max(high - step, low + 1);
    const bool taken = takes(next);
    (taken ? low : high) = next;
    if (taken != upwards) break;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (takes(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

SegmentLoads::SegmentLoads(const Chain& chain, const PlanTask& task, std::vector<double> lifetimes, int64_t micro_batch,
                           std::vector<int64_t> windows)
    : chain_(&chain), task_(&task), lifetimes_(std::move(lifetimes)), micro_batch_(micro_batch), windows_(std::move(windows)) {
  waiting_ = waiting_samples(task, micro_batch_, windows_);
  held_ = held_by_devices(task.options.alignment, task.options.mini_batch / micro_batch_, windows_);
  latency_seconds_.assign(task.models.size(), 0);
  for (size_t d = task.models.size(); !task.options.fpdeep_lifetimes && d-- > 1;)
    latency_seconds_[d - 1] = latency_seconds_[d] + 2e-6 * task.cluster.links[d - 1].latency_us;
  const double longest = latency_seconds_.empty() ? 0 : latency_seconds_.front();
  std::map<std::tuple<const CostModel*, int64_t, double, double, double>, size_t> known;
  for (size_t d = 0; d < task.models.size(); ++d) {
    // Where rows stream, the window follows from the period and costs nothing.
    const bool streams = task.models[d]->dedicated_engines();
    if (!streams) latency_seconds_[d] = 0;
    const double step = longest / kLatencySteps;
    // What is ruled out holds no row that a plan may do without.
    const bool least = task.options.streamed_words == StreamedWords::kLeastBuilt;
    const double steps = step > 0 ? latency_seconds_[d] / step : 0;
    searched_latency_.push_back(step * (least ? std::floor(steps) : std::ceil(steps)));
    const int64_t window = streams ? 0 : windows_[d];
    const double outside = seconds_waiting(static_cast<int64_t>(d));
    kinds_.push_back(
        known.try_emplace({task.models[d], window, searched_latency_[d], streams ? waiting_[d] : 0, outside}, known.size()).first->second);
    int64_t group = chain.groups();
    while (group > 0 && task.models[d]->keeps_off_chip(chain.head_of(group - 1))) --group;
    off_chip_from_.push_back(takes_all_off_chip() && group < chain.groups() ? chain.begin_of(group) : chain.end());
  }
  for (int64_t g = 0; g < chain.groups(); ++g) {
    const Node& head = chain.head_of(g);
    const auto height = static_cast<double>(head.input_shapes.empty() ? 1 : std::max<int64_t>(head.input_shapes[0].height, 1));
    const std::optional<SlidingWindow> window = traits_of(head.layer.operation).row_window;
    rows_.push_back({height, std::min(height, window ? static_cast<double>(window->reach()) : 1.0)});
    on_chip_.push_back(task.options.on_chip.contains(chain.head_of(g).layer.name));
    off_chip_.push_back(task.options.off_chip.contains(chain.head_of(g).layer.name));
    some_grouped_ = some_grouped_ || chain.extent_of(g).conv_groups > 1;
  }
  for (const CostModel* model : task.models) {
    chooses_.push_back(model->dedicated_engines() && off_chip_bandwidth(model->inventory()) > 0 && !takes_all_off_chip());
    enlarges_.push_back(task.options.accounting == Accounting::kFull && model->enlarges_engines(task.options.streamed_words));
  }
  if (task.options.accounting != Accounting::kFull) return;
  gradient_samples_ = samples_of_gradient_pass(task.options.mini_batch, micro_batch_);
  if (task.options.micro_batches.empty()) return;
  gradient_samples_held_ = gradient_samples_;
  for (const int64_t size : task.options.micro_batches) {
    const int64_t samples = samples_of_gradient_pass(task.options.mini_batch, size);
    gradient_samples_ = std::max(gradient_samples_, samples);
    gradient_samples_held_ = std::min(gradient_samples_held_, samples);
  }
}

KnownReaches::Between KnownReaches::find(const From& from, double period) const {
  const std::lock_guard lock(mutex_);
  Between between;
  const auto found = known_.find(from);
  if (found == known_.end()) return between;
  const auto longer = found->second.lower_bound(period);
  if (longer != found->second.end()) between.longer = longer->second;
  if (longer != found->second.end() && longer->first == period)
    between.shorter = longer->second;
  else if (longer != found->second.begin())
    between.shorter = std::prev(longer)->second;
  return between;
}

void KnownReaches::add(const From& from, double period, int64_t reached) {
  const std::lock_guard lock(mutex_);
  known_[from].insert_or_assign(period, reached);
}

SegmentLoads::Found::Found(const SegmentLoads& loads) {
  const size_t kinds = loads.kinds_.empty() ? 0 : *std::ranges::max_element(loads.kinds_) + 1;
  whole_.resize(kinds * to_size(loads.chain().groups()));
  taken_.resize(whole_.size());
}

ShardQuestion SegmentLoads::question(int64_t device, int64_t group, int64_t to, double period, const BlockList& blocks) const {
  ShardQuestion question;
  question.node = &chain_->head_of(group);
  question.blocks = blocks;
  question.owner = to == chain_->end_of(group);
  if (question.owner) question.after = chain_->after_of(group);
  question.on_chip = fast_item(on_chip_, group);
  question.off_chip = fast_item(off_chip_, group) && takes_all_off_chip();
  question.act_ram_outside = task_->options.act_rams_outside;
  question.gradient_samples = gradient_samples_;
  question.gradient_samples_held = gradient_samples_held_;
  question.streamed_words = task_->options.streamed_words;
  question.micro_batch = micro_batch_;
  question.window = fast_item(held_.micro_batches, device);
  question.errors_held = fast_item(held_.errors, device);
  question.lifetime = lifetime(device, group, fast_item(searched_latency_, device), period);
  question.period_seconds = period;
  question.optimizer_slots = task_->options.optimizer.slots();
  question.arithmetic = task_->options.arithmetic;
  question.recompute = task_->options.recompute;
  return question;
}

ShardQuestion SegmentLoads::exact_question(int64_t device, int64_t group, int64_t to, double period, double ring_period,
                                           const BlockList& blocks) const {
  ShardQuestion exact = question(device, group, to, period, blocks);
  exact.lifetime = lifetime(device, group, fast_item(latency_seconds_, device), ring_period);
  return exact;
}

double SegmentLoads::lifetime(int64_t device, int64_t group, double latency, double period) const {
  const double samples =
      fast_item(lifetimes_, group) + fast_item(waiting_, device) + (period > 0 ? std::min(latency / period, kMostSamplesUnderWay) : 0);
  const Rows& rows = fast_item(rows_, group);
  if (task_->options.accounting == Accounting::kFpdeep || !model(device).dedicated_engines()) return samples;
  // Rows are whole, and one more is being filled while all those still wait.
  return (std::max(std::floor((samples + task_->options.more_samples) * rows.of_input * (1 + 1e-9)), rows.reach) + 1) / rows.of_input;
}

bool SegmentLoads::off_chip(int64_t device, int64_t from, int64_t to) const {
  if (from >= to || !takes_all_off_chip()) return false;
  for (int64_t g = chain_->group_at(from); g < chain_->groups() && chain_->begin_of(g) < to; ++g)
    if (model(device).keeps_off_chip(chain_->head_of(g))) return true;
  return false;
}

ShardLoad SegmentLoads::load(int64_t device, int64_t group, int64_t from, int64_t to, double period, bool off_chip) const {
  ShardLoad load{.group = group, .from = from, .to = to, .beside = shard(device, group, from, to, period, off_chip), .ways = {}};
  // What has no engine that is built may be stored elsewhere.
  load.may_stream = chooses(device, group) && load.beside.parameters == 0;
  if (load.may_stream || enlarges(device)) load.ways = std::make_shared<ShardLoad::Ways>();
  return load;
}

ShardDemand SegmentLoads::streamed_demand(int64_t device, const ShardLoad& shard, double period) const {
  const BlockList blocks = chain_->blocks(shard.group, shard.from, shard.to);
  ShardQuestion asked = question(device, shard.group, shard.to, period, blocks);
  place_weights(device, shard.group, {{shard.group, true}}, false, asked);
  return no_less_than(device, shard.beside, demand_of(device, asked));
}

// But for the memory that holds parameters. What is built is what it is.
ShardDemand SegmentLoads::no_less_than(int64_t device, const ShardDemand& least, ShardDemand demand) const {
  if (counts_built()) return demand;
  demand.seconds = std::max(demand.seconds, least.seconds);
  for (size_t i = 0; i < demand.amounts.size(); ++i)
    if (!model(device).holds_parameters(i)) demand.amounts[i] = std::max(demand.amounts[i], least.amounts[i]);
  return demand;
}

std::vector<ShardLoad::Other> SegmentLoads::larger_engines(int64_t device, const ShardLoad& shard, double period) const {
  std::vector<ShardLoad::Other> found;
  const BlockList blocks = chain_->blocks(shard.group, shard.from, shard.to);
  ShardQuestion asked = question(device, shard.group, shard.to, period, blocks);
  for (const bool streams : {false, true}) {
    if (streams && !shard.may_stream) break;
    place_weights(device, shard.group, {{shard.group, streams}}, false, asked);
    const std::vector<LargerEngine> engines = model(device).larger_engines(asked);
    found.reserve(found.size() + engines.size());
    for (const LargerEngine& larger : engines)
      found.push_back({{shard.group, streams, larger.most_tiles}, no_less_than(device, shard.beside, larger.demand)});
  }
  return found;
}

ShardWays SegmentLoads::ways(int64_t device, int64_t from, int64_t to, double period, bool least_room) const {
  // What may be stored elsewhere is at home if there is room.
  for (const bool parameters : {true, false}) {
    StretchLoad stretch(*this, device, period, {.parameters = parameters});
    bool choice = false;
    for (int64_t g = from < to ? chain_->group_at(from) : chain_->groups(); g < chain_->groups() && chain_->begin_of(g) < to; ++g) {
      choice = choice || chooses(device, g) || enlarges(device);
      stretch.add(load(device, g, std::max(from, chain_->begin_of(g)), std::min(to, chain_->end_of(g)), period));
    }
    if (!choice) break;
    if (std::optional<ShardWays> ways = stretch.ways(least_room)) return *std::move(ways);
  }
  return {};
}

// Where weights are placed already, those stay there.
ShardLoad SegmentLoads::load_of_all_ways(int64_t device, ShardLoad shard, ShardQuestion& asked, const ShardWays* placed) const {
  const int64_t group = shard.group;
  place_weights(device, group, placed != nullptr ? *placed : ShardWays(), false, asked);
  const bool streams_as_placed = placed != nullptr && asked.off_chip;
  shard.beside = demand_of(device, asked);
  shard.may_stream = placed == nullptr && chooses(device, group) && shard.beside.parameters == 0;
  shard.ways = std::make_shared<ShardLoad::Ways>();
  std::vector<ShardLoad::Other>&streamed = shard.ways->streamed.emplace(), &larger_ones = shard.ways->larger.emplace();
  for (const bool streams : {false, true}) {
    if (streams != streams_as_placed && !shard.may_stream) continue;
    if (placed == nullptr) place_weights(device, group, {{group, streams}}, false, asked);
    if (streams && placed == nullptr) streamed.push_back({{group, true}, demand_of(device, asked)});
    for (const LargerEngine& larger : model(device).larger_engines(asked))
      larger_ones.push_back({{group, streams, larger.most_tiles}, larger.demand});
  }
  return shard;
}

// As the least that it and larger parts of the layer may be built with.
ShardLoad SegmentLoads::least_load(int64_t device, int64_t group, int64_t from, int64_t to, double period) const {
  const BlockList blocks = chain_->blocks(group, from, to);
  ShardQuestion asked = question(device, group, to, period, blocks);
  asked.streamed_words = StreamedWords::kLeastBuilt;
  return load_of_all_ways(device, {.group = group, .from = from, .to = to, .beside = {}, .ways = {}}, asked, nullptr);
}

std::optional<ShardWays> SegmentLoads::built_ways(int64_t device, int64_t from, int64_t to, double period, double ring_period,
                                                  const ShardWays& placed) const {
  const bool as_placed = !enlarges(device);
  StretchLoad within_period(*this, device, period, {});
  StretchLoad whatever(*this, device, period, {}, std::numeric_limits<double>::max());
  for (int64_t g = from < to ? chain_->group_at(from) : chain_->groups(); g < chain_->groups() && chain_->begin_of(g) < to; ++g) {
    const int64_t begin = std::max(from, chain_->begin_of(g)), end = std::min(to, chain_->end_of(g));
    const BlockList blocks = chain_->blocks(g, begin, end);
    ShardQuestion asked = exact_question(device, g, end, period, ring_period, blocks);
    asked.streamed_words = StreamedWords::kBuilt;
    const ShardLoad shard =
        load_of_all_ways(device, {.group = g, .from = begin, .to = end, .beside = {}, .ways = {}}, asked, as_placed ? &placed : nullptr);
    within_period.add(shard);
    whatever.add(shard);
  }
  std::optional<ShardWays> ways = within_period.ways(false);
  if (!ways) ways = whatever.fastest();
  if (!ways || !as_placed) return ways;
  for (const ShardWay& way : placed)
    if (std::ranges::find(*ways, way.group, &ShardWay::group) == ways->end()) ways->push_back(way);
  std::ranges::sort(*ways, {}, &ShardWay::group);
  return ways;
}

void SegmentLoads::place_weights(int64_t device, int64_t group, const ShardWays& ways, bool off_chip, ShardQuestion& question) const {
  const auto way = std::ranges::lower_bound(ways, group, {}, &ShardWay::group);
  const bool named = way != ways.end() && way->group == group;
  question.most_tiles = named ? way->most_tiles : 0;
  if (chooses(device, group)) {
    question.off_chip = named && way->streams;
    question.on_chip = !question.off_chip;
  }
  question.off_chip = question.off_chip || off_chip;
}

ShardDemand SegmentLoads::shard(int64_t device, int64_t group, int64_t from, int64_t to, double period, bool off_chip) const {
  const BlockList blocks = chain_->blocks(group, from, to);
  ShardQuestion asked = question(device, group, to, period, blocks);
  place_weights(device, group, {}, off_chip, asked);
  return demand_of(device, asked);
}

ShardDemand SegmentLoads::demand_of(int64_t device, const ShardQuestion& question) const {
  ShardDemand demand = model(device).demand_of(question);
  // F that is made again reads its weights where it is made, and its gradient follows at once.
  if (question.node->divides && demand.shared <= 0) return demand;
  demand.amounts[model(device).parameter_memory()] += demand.parameters;
  demand.parameters = 0;
  return demand;
}

bool SegmentLoads::within(int64_t device, const ShardDemand& sum, double period, const Storage& storage) const {
  if (!(sum.seconds <= period)) return false;
  const std::span<const NamedAmount> capacities = model(device).capacities();
  const size_t memory = model(device).parameter_memory();
  for (size_t i = 0; i < capacities.size(); ++i) {
    double amount = sum.amounts[i];
    double capacity = capacities[i].amount;
    if (i == memory) {
      if (storage.parameters) amount += sum.parameters;
      capacity *= storage.share;
    }
    if (!(amount <= capacity)) return false;
  }
  return true;
}

ShardLoad& SegmentLoads::load_of(ShardLoad& part, int64_t device, int64_t group, int64_t from, int64_t to, double period,
                                 Found* found) const {
  const bool is_whole = found != nullptr && from == chain_->begin_of(group) && to == chain_->end_of(group);
  if (!is_whole) return part = load(device, group, from, to, period);
  std::optional<ShardLoad>& whole = found->whole_[place_of(device, group)];
  if (!whole) whole = load(device, group, from, to, period);
  return part = *whole;
}

bool SegmentLoads::fits_with(StretchLoad& stretch, ShardLoad& part, int64_t device, int64_t group, int64_t from, int64_t to, double period,
                             Found* found) const {
  return stretch.fits_with(load_of(part, device, group, from, to, period, found));
}

ShardDemand SegmentLoads::demand(int64_t device, int64_t from, int64_t to, double period) const {
  ShardDemand sum;
  if (from >= to) return sum;
  for (int64_t g = chain_->group_at(from); g < chain_->groups() && chain_->begin_of(g) < to; ++g)
    sum += shard(device, g, std::max(from, chain_->begin_of(g)), std::min(to, chain_->end_of(g)), period, false);
  return sum;
}

Storage SegmentLoads::storage_to(int64_t device, int64_t to, const Storage& storage) const {
  Storage counted = storage;
  if (storage.spared_off_chip && to > off_chip_from(device)) counted.parameters = false;
  return counted;
}

bool SegmentLoads::fits(int64_t device, int64_t from, int64_t to, double period, const Storage& storage, Found* found) const {
  if (from >= to) return true;
  StretchLoad sum(*this, device, period, storage_to(device, to, storage));
  ShardLoad part;
  for (int64_t g = chain_->group_at(from); g < chain_->groups() && chain_->begin_of(g) < to; ++g) {
    if (!fits_with(sum, part, device, g, std::max(from, chain_->begin_of(g)), std::min(to, chain_->end_of(g)), period, found)) return false;
    sum.add(part);
  }
  return true;
}

SegmentLoads::Ends SegmentLoads::ends(int64_t device, int64_t from, double period, const Storage& storage, Found* found) const {
  const int64_t boundary = off_chip_from(device);
  Ends ends{from, from};
  if (from < boundary) ends.on_chip = std::min(boundary, furthest(device, from, false, period, storage, found));
  // Where all stretches are alike, the way ends where it ends.
  const bool all_alike = !(storage.parameters && storage.spared_off_chip) && from < boundary && ends.on_chip < boundary;
  if (boundary == chain_->end() || all_alike) return ends;
  const int64_t last = furthest(device, from, false, period, storage_to(device, chain_->end(), storage), found);
  if (last > std::max(from, boundary)) ends.off_chip = last;
  return ends;
}

int64_t SegmentLoads::reach(int64_t device, int64_t from, double period, const Storage& storage, Found* found) const {
  const Ends both = ends(device, from, period, storage, found);
  return std::max(both.on_chip, both.off_chip);
}

int64_t SegmentLoads::reach_back(int64_t device, int64_t to, double period, const Storage& given, Found* found) const {
  return furthest(device, to, true, period, storage_to(device, to, given), found);
}

// More units than these that are taken, where a few channels more are not: lanes of engines divide some numbers of channels better. No more
// than `most`, which the least that any part may be built with leaves.
int64_t SegmentLoads::beyond(int64_t group, int64_t from, int64_t units, int64_t most, bool back,
                             const std::function<bool(int64_t)>& takes) const {
  constexpr int64_t kMostTried = 64;
  constexpr int64_t kChannelSteps = 512;  // of a layer
  const int64_t of_channel = chain_->units_of_channel(group);
  const int64_t all = chain_->end_of(group) - chain_->begin_of(group);
  const int64_t step = of_channel * std::max<int64_t>(1, all / of_channel / kChannelSteps);
  // From boundary to boundary between channels, the furthest first.
  int64_t next = most;
  for (int64_t tried = 0; tried < kMostTried && next > units; ++tried) {
    if (takes(next)) return next;
    const int64_t at = back ? from - next : from + next;
    next = back ? from - (at / step + 1) * step : (at - 1) / step * step - from;
  }
  return units;
}

int64_t SegmentLoads::furthest(int64_t device, int64_t from, bool back, double period, const Storage& storage, Found* found) const {
  const int64_t last = back ? 0 : chain_->end();
  if (from == last) return from;
  const KnownReaches::From key{kind_of(device), model(device).kind_of_period(period), from, back, storage};
  const KnownReaches::Between known = is_monotone(device) ? reaches_.find(key, period) : KnownReaches::Between{};
  if (known.is_known()) return *known.longer;
  StretchLoad sum(*this, device, period, storage);
  int64_t position = from;
  const auto units_to = [&](int64_t end, int64_t left) { return std::clamp<int64_t>(back ? position - end : end - position, 0, left); };
  while (position != last) {
    const int64_t g = chain_->group_at(back ? position - 1 : position);
    const int64_t left = back ? position - chain_->begin_of(g) : chain_->end_of(g) - position;
    ShardLoad part;  // that was looked at last
    const auto begin = [&](int64_t units) { return back ? position - units : position; };
    const auto takes = [&](int64_t units) { return fits_with(sum, part, device, g, begin(units), begin(units) + units, period, found); };
    // As a shorter period does, and no more than a longer one does.
    const int64_t low = units_to(known.shorter.value_or(from), left), high = units_to(known.longer.value_or(last), left) + 1;
    int64_t* const near = found != nullptr && position == from ? &found->taken_[place_of(device, g)] : nullptr;
    int64_t units = low;
    if (low == left) {
      load_of(part, device, g, begin(left), begin(left) + left, period, found);
    } else if (high - low > 1) {
      const bool is_near = near != nullptr && *near > low && *near < std::min(high, left);
      const int64_t guess = is_near ? *near : low > 0 ? low + 1 : high - 1;
      units = most_units(low, high, guess, is_near || low > 0 || high <= left, takes);
    }
    if (units < left && counts_built() && parts_may_take_more()) {
      int64_t most = units;
      for (int64_t none = left + 1; none - most > 1;) {
        const int64_t middle = most + (none - most) / 2;
        ShardLoad least = least_load(device, g, begin(middle), begin(middle) + middle, period);
        (sum.fits_with(least) ? most : none) = middle;
      }
      units = beyond(g, begin(0) - chain_->begin_of(g), units, most, back, takes);
      load_of(part, device, g, begin(units), begin(units) + units, period, found);
    }
    position += back ? -units : units;
    if (units < left) {
      if (near != nullptr) *near = units;
      break;
    }
    sum.add(part);
  }
  if (is_monotone(device)) reaches_.add(key, period, position);
  return position;
}

Overrun SegmentLoads::overrun(int64_t device, int64_t from, int64_t to, double period, const Storage& given) const {
  const Storage storage = storage_to(device, to, given);
  // In the least room.
  ShardDemand sum;
  for (int64_t g = from < to ? chain_->group_at(from) : chain_->groups(); g < chain_->groups() && chain_->begin_of(g) < to; ++g) {
    const ShardLoad part = load(device, g, std::max(from, chain_->begin_of(g)), std::min(to, chain_->end_of(g)), period);
    sum += part.may_stream ? streamed_demand(device, part, period) : part.beside;
  }
  if (sum.amounts[0] >= kNoSuchEngine) return {std::string(kEngine), 1};
  const std::span<const NamedAmount> capacities = model(device).capacities();
  Overrun worst;
  double worst_ratio = 1;
  const auto consider = [&](std::string_view name, double amount, double capacity) {
    const double ratio = capacity > 0 ? amount / capacity : std::numeric_limits<double>::infinity();
    if (amount <= capacity || ratio <= worst_ratio) return;
    worst_ratio = ratio;
    worst = {std::string(name), amount - capacity};
  };
  consider("seconds", sum.seconds, period);
  for (size_t i = 0; i < capacities.size(); ++i) {
    const bool memory = i == model(device).parameter_memory();
    consider(capacities[i].name, sum.amounts[i] + (memory && storage.parameters ? sum.parameters : 0),
             capacities[i].amount * (memory ? storage.share : 1));
  }
  return worst;
}

}  // namespace millrace
