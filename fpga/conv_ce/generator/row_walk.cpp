#include "fpga/conv_ce/generator/row_walk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "core/base/check.h"
#include "core/base/kept_memory.h"

namespace millrace {

namespace {

// Of what was never: before all others, and so whatever is added to it.
constexpr double kNever = -1e300;

}  // namespace

// When something was, what it waited for last, and in which queue there was no room till then.
struct RowWalk::Cause {
  double at = 0;
  std::optional<RowEvent> from = {};
  int64_t queue = -1;

  // Of several the first.
  void wait(const Cause& other) {
    if (other.at > at || !from) *this = other;
  }
};

// Of the block behind the run's last one, in which everything has come that any of them waits for.
class RowWalk::Listing {
 public:
  struct Wait {
    uint32_t node = 0, seconds = 0;
    int32_t back = 0;  // blocks
  };
  struct Found {
    uint32_t rule = 0;
    uint32_t node = 0;  // the begin of the unit that has to pass; of no unit: that of the first variant
    int32_t back = 0;
    int64_t above = 0, unit = 0;  // of the first block
  };
  struct Event {
    uint32_t waits = 0, found = 0;  // the first
  };

  Listing(RowWalk& walk, std::pmr::memory_resource* memory)
      : walk_(walk), block_(walk.blocks_), events_(memory), waits_(memory), found_(memory) {
    const RowEvents& events = walk.events_;
    // More than most have: what is not used costs nothing, and lists that grow are copied.
    events_.reserve(walk.nodes_ + 1);
    waits_.reserve(3 * walk.nodes_);
    found_.reserve(2 * walk.nodes_);
    for (const bool late : {false, true})
      for (size_t entity = 0; entity < events.entities(); ++entity)
        if (walk.is_late(entity) == late && walk.units_[entity] > 0) list(entity);
    begin_event(false);
  }

  void after(const RowEvent& event, double seconds, const RowVia& /*via*/) {
    const auto [block, node] = walk_.place_of(event);
    const int64_t back = block_ - block;
    const bool is_late = walk_.is_late(event.entity) && !walk_.is_late(entity_);
    MILLRACE_CHECK(back >= 0 || is_late, "an event waits for one of samples behind it");
    const Wait wait{node, number_of(seconds), static_cast<int32_t>(back)};
    if (is_late) {
      waits_for_own_pass_ = waits_for_own_pass_ || back <= 0;
      late_.push_back(wait);
    } else if (!varying_) {
      waits_.push_back(wait);
    }
  }

  void after_passing(const RowsPassing& rows, const RowVia& via) {
    if (varying_) return;
    const RowEvents::Stream& stream = walk_.events_.stream(rows.stream);
    const UnitPassed passed = unit_passed(rows.counts_units ? rows.amount : stream.in_units(rows.amount), rows.soon);
    if (passed.unit < 0) return;
    // Of whole units nothing is rounded.
    if (passed.ended && rows.is_whole() && (rows.counts_units || static_cast<double>(stream.rows_to(passed.unit + 1)) == rows.amount))
      return after({rows.stream, true, passed.unit}, via.tail, via);
    const uint32_t rule = rule_of([&](const Rule& known) { return is_by(known, rows, via); }, [&] { return rule_by(rows, via); });
    const auto [block, node] = walk_.place_of({rows.stream, false, passed.unit});
    const int64_t back = block_ - block;
    MILLRACE_CHECK(back >= 0, "an event waits for one of samples behind it");
    found_.push_back({.rule = rule,
                      .node = node,
                      .back = static_cast<int32_t>(back),
                      .above = rows.above - walk_.blocks_ * walk_.rules_[rule].of_block,
                      .unit = passed.unit - walk_.blocks_ * walk_.units_[rows.stream]});
  }

  // Which has no place in an order of blocks of a sample.
  bool waits_for_own_pass() const { return waits_for_own_pass_; }
  std::span<const Wait> waits_of(uint32_t event) const {
    return {waits_.data() + events_[event].waits, waits_.data() + events_[event + 1].waits};
  }
  std::span<const Found> found_of(uint32_t event) const {
    return {found_.data() + events_[event].found, found_.data() + events_[event + 1].found};
  }
  size_t waits() const { return waits_.size(); }
  size_t found() const { return found_.size(); }
  const std::vector<Wait>& variants() const { return variants_; }

 private:
  void list(size_t entity) {
    const RowEvents& events = walk_.events_;
    const int64_t first = walk_.first_unit(entity, walk_.blocks_), block = walk_.place_of({entity, false, first}).block;
    const bool varies =
        walk_.samples_of_block_ < events.samples_of_period() && entity < events.streams() && events.is_read_in_passes(entity);
    for (std::vector<uint32_t>& rules : rules_of_call_) rules.clear();
    entity_ = entity;
    for (int64_t unit = 0; unit < walk_.units_[entity]; ++unit)
      for (const bool ends : {false, true}) {
        block_ = block;
        begin_event(ends);
        events.list({entity, ends, first + unit}, *this);
        if (!ends && gives(entity)) give(entity, first + unit);
        if (!ends && varies) vary(entity, unit);
      }
  }
  void begin_event(bool ends) {
    events_.push_back({static_cast<uint32_t>(waits_.size()), static_cast<uint32_t>(found_.size())});
    late_.clear();
    calls_ = 0;
    ends_ = ends;
  }
  // The same seconds have one number, mostly.
  uint32_t number_of(double seconds) {
    const auto bits = std::bit_cast<uint64_t>(seconds);
    uint32_t& known = numbers_[(bits * 0x9e3779b97f4a7c15) >> 56];
    if (known < walk_.seconds_.size() && std::bit_cast<uint64_t>(walk_.seconds_[known]) == bits) return known;
    walk_.seconds_.push_back(seconds);
    return known = static_cast<uint32_t>(walk_.seconds_.size() - 1);
  }

  bool gives(size_t entity) const {
    return walk_.how_.source && entity < walk_.events_.streams() && walk_.events_.same(*walk_.how_.source) == entity;
  }
  void give(size_t entity, int64_t unit) {
    const RowEvents::Stream& stream = walk_.events_.stream(entity);
    const Rule rule{.kind = Rule::Kind::kGiven, .stream = entity, .of_block = walk_.samples_of_block_ * stream.blocks.rows};
    found_.push_back({.rule = rule_of([](const Rule& known) { return known.kind == Rule::Kind::kGiven; }, [&] { return rule; }),
                      .above = stream.rows_to(unit) - walk_.blocks_ * rule.of_block});
  }
  // What the beginning waits for in each sample of a pass: a step of each that reads the stream, of those passes that are within the run.
  void vary(size_t entity, int64_t unit) {
    std::vector<std::vector<Wait>> of_samples{late_};
    varying_ = true;
    while (std::ssize(of_samples) < walk_.events_.samples_of_period()) {
      late_.clear();
      block_ = walk_.blocks_ + std::ssize(of_samples);
      walk_.events_.list({entity, false, walk_.first_unit(entity, block_) + unit}, *this);
      of_samples.push_back(late_);
    }
    varying_ = false;
    const size_t count = std::ranges::max(of_samples, {}, &std::vector<Wait>::size).size();
    if (count == 0) return;
    const Rule rule{.kind = Rule::Kind::kVaries, .units_of_block = static_cast<int64_t>(count)};
    const auto is = [&](const Rule& known) { return known.kind == Rule::Kind::kVaries && known.units_of_block == rule.units_of_block; };
    found_.push_back({.rule = rule_of(is, [&] { return rule; }), .above = std::ssize(variants_)});
    for (std::vector<Wait>& of_sample : of_samples) {
      of_sample.resize(count, {.back = static_cast<int32_t>(block_)});  // long before the run
      variants_.insert(variants_.end(), of_sample.begin(), of_sample.end());
    }
  }

  Rule rule_by(const RowsPassing& rows, const RowVia& via) const {
    const RowEvents::Stream& stream = walk_.events_.stream(rows.stream);
    const bool are_units = rows.counts_units || stream.single_rows;
    Rule rule{.kind = rows.less->before == nullptr && are_units ? Rule::Kind::kPassedUnits : Rule::Kind::kPassed,
              .stream = rows.stream,
              .are_units = are_units,
              .counts_units = rows.counts_units,
              .soon = rows.soon,
              .more = rows.more,
              .last_less = rows.less->rows,
              .least = rows.least,
              .tail = via.tail,
              .of_block = rows.counts_units ? walk_.units_[rows.stream] : walk_.samples_of_block_ * stream.blocks.rows,
              .units_of_block = walk_.units_[rows.stream]};
    for (const RowsPassing::Less* one = rows.less->before; one != nullptr; one = one->before)
      rule.less.insert(rule.less.begin(), one->rows);
    return rule;
  }
  static bool is_by(const Rule& rule, const RowsPassing& rows, const RowVia& via) {
    if (!rule.passes() || rule.stream != rows.stream || rule.counts_units != rows.counts_units || rule.soon != rows.soon ||
        rule.more != rows.more || rule.last_less != rows.less->rows || rule.least != rows.least || rule.tail != via.tail)
      return false;
    auto less = rule.less.rbegin();
    for (const RowsPassing::Less* one = rows.less->before; one != nullptr; one = one->before, ++less)
      if (less == rule.less.rend() || *less != one->rows) return false;
    return less == rule.less.rend();
  }
  // Unit after unit asks by the same rules.
  template <typename Is, typename Make>
  uint32_t rule_of(const Is& is, const Make& make) {
    std::vector<uint32_t>& known = rules_of_call_[ends_ ? 1 : 0];
    const size_t call = calls_++;
    if (call < known.size() && is(walk_.rules_[known[call]])) return known[call];
    if (call == known.size()) known.emplace_back();
    walk_.rules_.push_back(make());
    return known[call] = static_cast<uint32_t>(walk_.rules_.size() - 1);
  }

  RowWalk& walk_;
  size_t entity_ = 0;  // whose events are listed
  int64_t block_;      // of them
  std::pmr::vector<Event> events_;
  std::pmr::vector<Wait> waits_;
  std::pmr::vector<Found> found_;
  std::vector<Wait> late_;      // of the event, for passes of several samples
  std::vector<Wait> variants_;  // of all such events, sample by sample
  bool varying_ = false;        // those alone are listed
  bool waits_for_own_pass_ = false;
  std::array<uint32_t, 256> numbers_{};
  std::array<std::vector<uint32_t>, 2> rules_of_call_;
  size_t calls_ = 0;
  bool ends_ = false;
};

RowWalk::RowWalk(const RowEvents& events, const RowRun& how)
    : events_(events),
      how_(how),
      memory_(kMemoryAtFirst, kept_memory()),
      order_(&memory_),
      places_(&memory_),
      waits_(&memory_),
      found_(&memory_) {
  if (!events.passes_end_alone() || !prepare(1)) prepare(events.samples_of_period());
}

// False: a block of so few samples waits for what follows it.
bool RowWalk::prepare(int64_t samples_of_block) {
  const int64_t period = events_.samples_of_period();
  samples_of_block_ = samples_of_block;
  blocks_ = (how_.samples + period - 1) / period * (period / samples_of_block);
  first_node_.clear();
  units_.clear();
  rules_.clear();
  seconds_.clear();
  size_t nodes = 0;
  for (const bool late : {false, true}) {
    for (size_t entity = 0; entity < events_.entities(); ++entity) {
      if (!late) units_.push_back(events_.units_of(entity, is_late(entity) ? period : samples_of_block));
      if (!late) first_node_.push_back(0);
      if (is_late(entity) != late) continue;
      first_node_[entity] = nodes;
      nodes += 2 * to_size(units_[entity]);
    }
    (late ? nodes_ : late_nodes_) = nodes;
  }
  MILLRACE_CHECK(std::cmp_less((blocks_ + period + 1) * static_cast<int64_t>(nodes_), int64_t{1} << 31), "{} samples of {} events",
                 how_.samples, nodes_);
  const size_t bytes = (to_size(blocks_) * nodes_ + 1) * sizeof(double);
  auto* const never = static_cast<double*>(memory_.allocate(bytes, alignof(double)));
  times_ = never + 1;
  // What is listed is in order before the first time is known.
  std::pmr::monotonic_buffer_resource lists(never, bytes, kept_memory());
  const Listing listing(*this, &lists);
  if (listing.waits_for_own_pass()) return false;
  if (put_in_order(listing)) take(listing);
  return true;
}

bool RowWalk::is_late(size_t entity) const { return samples_of_block_ < events_.samples_of_period() && events_.is_pass(entity); }
int64_t RowWalk::first_unit(size_t entity, int64_t block) const {
  return (is_late(entity) ? block / events_.samples_of_period() : block) * units_[entity];
}
RowWalk::Place RowWalk::place_of(const RowEvent& event) const {
  const int64_t units = units_[event.entity], index = event.unit / units, unit = event.unit - index * units;
  const int64_t block = is_late(event.entity) ? (index + 1) * events_.samples_of_period() - 1 : index;
  return {block, static_cast<uint32_t>(first_node_[event.entity] + 2 * to_size(unit) + (event.ends ? 1 : 0))};
}

// Each event of a block behind those of it that it waits for, passes of several samples at the end. False: some wait for each other in a
// circle, which has no first one.
bool RowWalk::put_in_order(const Listing& listing) {
  enum : uint8_t { kUnseen, kOpen, kPlaced };
  std::vector<uint8_t> state(nodes_, kUnseen);
  order_.reserve(nodes_);
  places_.resize(nodes_);
  struct Open {
    uint32_t node = 0;
    std::span<const Listing::Wait> waits;
    std::span<const Listing::Found> found;
  };
  std::vector<Open> open;
  const auto see = [&](uint32_t node) {
    state[node] = kOpen;
    open.push_back({node, listing.waits_of(node), listing.found_of(node)});
  };
  // The next one that has no place yet; the node itself: there is none.
  const auto waited_for = [&](Open& at) {
    while (!at.waits.empty()) {
      const Listing::Wait& wait = at.waits.front();
      at.waits = at.waits.subspan(1);
      if (wait.back == 0 && state[wait.node] != kPlaced) return wait.node;
    }
    while (!at.found.empty()) {
      const Listing::Found& found = at.found.front();
      at.found = at.found.subspan(1);
      const Rule& rule = rules_[found.rule];
      if (!rule.passes() || found.back != 0) continue;
      if (const uint32_t node = found.node + (rule.soon ? 0 : 1); state[node] != kPlaced) return node;
    }
    return at.node;
  };
  for (uint32_t root = 0; root < nodes_; ++root) {
    if (state[root] != kUnseen) continue;
    see(root);
    while (!open.empty()) {
      const uint32_t node = open.back().node, other = waited_for(open.back());
      if (other == node) {
        state[node] = kPlaced;
        places_[node] = static_cast<int32_t>(order_.size());
        order_.push_back(node);
        open.pop_back();
      } else if (state[other] == kUnseen) {
        see(other);
      } else {
        return false;
      }
    }
  }
  return true;
}

void RowWalk::take(const Listing& listing) {
  const auto place_of = [&](uint32_t node, int32_t back) { return places_[node] - back * static_cast<int32_t>(nodes_); };
  const auto place = [&](uint32_t node, int32_t back) {
    reach_ = std::max<int64_t>(reach_, back);
    return place_of(node, back);
  };
  waits_.reserve(listing.waits());
  found_.reserve(listing.found());
  for (const uint32_t node : order_) {
    if (places_[node] == static_cast<int32_t>(late_nodes_)) late_waits_ = waits_.size();
    for (const Listing::Found& listed : listing.found_of(node)) {
      Found& found = found_.emplace_back();
      found.wait = static_cast<uint32_t>(waits_.size());
      found.rule = listed.rule;
      found.above = listed.above;
      found.unit = listed.unit;
      if (!rules_[listed.rule].passes()) continue;
      found.begin = place(listed.node, listed.back);
      found.end = place(listed.node + 1, listed.back);
    }
    for (const Listing::Wait& wait : listing.waits_of(node)) waits_.push_back({place(wait.node, wait.back), 2 * wait.seconds});
    ++waits_.back().what;
  }
  if (late_nodes_ == nodes_) late_waits_ = waits_.size();
  for (const Listing::Wait& variant : listing.variants()) variants_.push_back(place_of(variant.node, variant.back));
}

RowTimes RowWalk::run() {
  const size_t queues = events_.queues().size();
  if (order_.size() < nodes_)
    return {.stands_still = true, .peak_rows = std::vector<double>(queues), .samples_held = std::vector<double>(queues)};
  times_[-1] = kNever;
  for (int64_t index = 0; index < blocks_; ++index) index < reach_ ? run_block<true>(index) : run_block<false>(index);
  return times();
}

[[gnu::always_inline]] inline double RowWalk::found_time(const Found& found, int64_t index, const double* now) const {
  const Rule& rule = rules_[found.rule];
  if (!rule.passes()) return rule.kind == Rule::Kind::kGiven ? given_at(found.above + index * rule.of_block) : latest_of(found, index, now);
  const int64_t above = found.above + index * rule.of_block, unit = found.unit + index * rule.units_of_block;
  if (unit < 0) return kNever;
  double units = static_cast<double>(above) + rule.more;
  if (rule.kind == Rule::Kind::kPassed)
    for (const double less : rule.less) units -= less;
  units -= rule.last_less;
  if (!rule.are_units) units = events_.stream(rule.stream).in_units(units);
  const double part = part_of_unit(units, unit);
  MILLRACE_CHECK(part > 0, "{} units pass unit {} of a stream in one block of samples only", units, unit);
  if (!rule.soon && is_whole_unit(part)) return now[found.end] + rule.tail;
  const double begin = now[found.begin];
  return begin + part * (rule.soon ? rule.least : now[found.end] - begin) + rule.tail;
}

// Of the steps of passes that the sample waits for.
double RowWalk::latest_of(const Found& found, int64_t index, const double* now) const {
  const int64_t count = rules_[found.rule].units_of_block, before = index * static_cast<int64_t>(nodes_);
  double latest = kNever;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t source = fast_item(variants_, found.above + index % events_.samples_of_period() * count + i);
    if (before + source >= 0) latest = std::max(latest, now[source]);
  }
  return latest;
}

// kEarly: some of what is waited for would have been before the first sample.
template <bool kEarly>
void RowWalk::run_block(int64_t index) {
  const auto before = static_cast<int32_t>(index * static_cast<int64_t>(nodes_));
  double* const now = times_ + before;
  const double* const seconds = seconds_.data();
  const Wait* wait = waits_.data();
  double* next = now;
  double latest = 0;                                         // no time is less
  const std::array<double, 2> most_to_go_on = {-kNever, 0};  // behind an event's last wait nothing is left
  const auto go_on = [&](size_t end) {
    for (const Wait* const last = waits_.data() + end; wait != last; ++wait) {
      int32_t source = wait->source;
      if constexpr (kEarly) source = std::max(source, -before - 1);
      const double at = now[source] + seconds[wait->what / 2];
      latest = latest < at ? at : latest;
      *next = latest;
      const uint32_t is_last = wait->what % 2;
      next += is_last;
      const double most = most_to_go_on[is_last];
      latest = most < latest ? most : latest;
    }
  };
  for (const Found& found : found_) {
    go_on(found.wait);
    const double at = found_time(found, index, now);
    latest = latest < at ? at : latest;
  }
  go_on(late_waits_);
  if ((index + 1) % events_.samples_of_period() == 0) go_on(waits_.size());
}

double RowWalk::given_at(int64_t rows) const {
  return how_.source_period * static_cast<double>(rows) / static_cast<double>(events_.stream(events_.same(*how_.source)).blocks.rows);
}

double RowWalk::time_of(const RowEvent& event) const {
  const auto [block, node] = place_of(event);
  return times_[block * static_cast<int64_t>(nodes_) + places_[node]];
}

// Of all units of the run.
std::vector<double> RowWalk::times_of(size_t entity, bool ends) const {
  const int64_t count = events_.units_of(entity, how_.samples);
  std::vector<double> times;
  times.reserve(to_size(count));
  const int32_t* const places = places_.data() + first_node_[entity] + (ends ? 1 : 0);
  for (int64_t first = 0, block = 0; first < count; first += units_[entity], ++block)
    for (int64_t unit = 0; unit < std::min(units_[entity], count - first); ++unit)
      times.push_back(times_[block * static_cast<int64_t>(nodes_) + places[2 * unit]]);
  return times;
}

// What an event of the run waited for.
RowWalk::Cause RowWalk::cause_of(const RowEvent& event) const {
  struct Causes {
    const RowWalk& walk;
    Cause latest = {}, left = {};  // of the latter a tail is to come
    double tail = 0;

    void wait(const Cause& cause, const RowVia& via) {
      (via.tail != 0 ? left : latest).wait(cause);
      if (via.tail != 0) tail = via.tail;
    }
    void after(const RowEvent& from, double seconds, const RowVia& via) { wait({walk.time_of(from) + seconds, from, via.queue}, via); }
    void after_passing(const RowsPassing& rows, const RowVia& via) {
      const RowEvents::Stream& stream = walk.events_.stream(rows.stream);
      const UnitPassed passed = unit_passed(rows.counts_units ? rows.amount : stream.in_units(rows.amount), rows.soon);
      if (passed.unit < 0) return;
      const RowEvent begin{rows.stream, false, passed.unit}, end{rows.stream, true, passed.unit};
      if (passed.ended) return after(end, 0, via);
      const double at = walk.time_of(begin);
      if (rows.soon) return after(begin, passed.part * rows.least, via);
      wait({at + passed.part * (walk.time_of(end) - at), end, via.queue}, via);
    }
  };
  Causes causes{*this};
  events_.list(event, causes);
  if (causes.left.from) {
    causes.left.at += causes.tail;
    causes.latest.wait(causes.left);
  }
  if (how_.source && !event.ends && event.entity == events_.same(*how_.source)) {
    const double given = given_at(events_.stream(event.entity).rows_to(event.unit));
    if (given > causes.latest.at) return {.at = given};
  }
  return causes.latest;
}

RowTimes RowWalk::times() const {
  RowTimes found;
  const std::vector<RowQueue>& queues = events_.queues();
  found.peak_rows.resize(queues.size());
  found.samples_held.resize(queues.size());
  // The last event of a sample.
  std::vector<Cause> done(to_size(how_.samples));
  for (size_t i = 0; i < events_.streams(); ++i) {
    if (units_[i] == 0) continue;
    for (int64_t sample = 0; sample < how_.samples; ++sample) {
      const RowEvent last{i, true, (sample + 1) * events_.stream(i).of_sample - 1};
      Cause& own = fast_item(done, sample);
      if (const double at = time_of(last); at > own.at) own = {at, last, -1};
    }
  }
  const int64_t half = how_.samples / 2;
  const double from = fast_item(done, how_.samples - 1 - half).at;
  found.period = (done.back().at - from) / static_cast<double>(half);
  // Back along what each event waited for.
  for (Cause at = done.back(); at.from && at.at > from;) {
    const Cause why = cause_of(*at.from);
    if (why.queue >= 0 && fast_item(queues, why.queue).waits) {
      const RowQueue& queue = fast_item(queues, why.queue);
      fast_item(found.samples_held, why.queue) += queue.rows / static_cast<double>(events_.stream(queue.in).blocks.rows);
    }
    at = why;
  }
  for (size_t i = 0; i < queues.size(); ++i)
    if (queues[i].waits) found.peak_rows[i] = peak_of(queues[i]);
  return found;
}

// Of the second half: rows that have come in when a unit ends, less those that have left.
double RowWalk::peak_of(const RowQueue& queue) const {
  const RowEvents::Stream &in = events_.stream(queue.in), &out = events_.stream(queue.out);
  const std::vector<double> came = times_of(queue.in, true), begins = times_of(queue.out, false), ends = times_of(queue.out, true);
  double most = 0;
  int64_t left = 0;
  for (int64_t unit = std::ssize(came) / 2; unit < std::ssize(came); ++unit) {
    const double now = fast_item(came, unit);
    while (left < std::ssize(ends) && fast_item(ends, left) <= now) ++left;
    double gone = static_cast<double>(out.rows_to(left));
    if (left < std::ssize(ends) && fast_item(begins, left) < now) {
      const double begin = fast_item(begins, left), end = fast_item(ends, left);
      gone += (now - begin) / (end - begin) * static_cast<double>(out.rows_to(left + 1) - out.rows_to(left));
    }
    most = std::max(most, static_cast<double>(in.rows_to(unit + 1)) - gone);
  }
  return most;
}

}  // namespace millrace
