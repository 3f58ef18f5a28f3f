#include "fpga/conv_ce/generator/row_walk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "core/base/check.h"

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

// Of the period behind the run's last one, in which everything has come that any of them waits for: of whatever every sample treats alike
// the first sample, else all of it.
class RowWalk::Listing {
 public:
  // Of an entity, from its first event of the period on: twice its unit, and one more for an end. Below zero: of periods before.
  struct Wait {
    uint32_t entity = 0, seconds = 0;
    int32_t event = 0;
  };
  struct Found {
    uint32_t rule = 0;
    uint32_t entity = 0;
    int64_t above = 0, unit = 0;  // less those of whole periods
    bool waits = false;
  };
  struct Event {
    uint32_t waits = 0, found = 0;  // the first
  };
  // An event of a period: as another one, but so many samples later.
  struct Node {
    uint32_t event = 0;
    uint32_t samples = 0;
  };

  explicit Listing(RowWalk& walk) : walk_(walk), period_(walk.events_.samples_of_period()) {
    const RowEvents& events = walk.events_;
    nodes_.reserve(walk.nodes_);
    for (size_t entity = 0; entity < events.entities(); ++entity) {
      for (std::vector<uint32_t>& rules : rules_of_call_) rules.clear();
      const int64_t units = walk.units_[entity], listed = events.is_alike(entity) ? units / period_ : units;
      units_of_sample_.push_back(units / period_);
      const auto first = static_cast<uint32_t>(events_.size());
      for (int64_t unit = 0; unit < listed; ++unit)
        for (const bool ends : {false, true}) {
          begin_event(ends);
          const int64_t of_run = walk.periods_ * units + unit;
          events.list({entity, ends, of_run}, *this);
          if (!ends && gives(entity)) give(entity, of_run);
        }
      for (int64_t unit = 0; unit < units; ++unit)
        for (const uint32_t ends : {0U, 1U})
          nodes_.push_back({first + 2 * static_cast<uint32_t>(unit % listed) + ends, static_cast<uint32_t>(unit / listed)});
    }
    begin_event(false);
  }

  void after(const RowEvent& event, double seconds, const RowVia& /*via*/) {
    waits_.push_back({static_cast<uint32_t>(event.entity), number_of(seconds),
                      static_cast<int32_t>(2 * (event.unit - walk_.periods_ * walk_.units_[event.entity]) + (event.ends ? 1 : 0))});
  }

  void after_passing(const RowsPassing& rows, const RowVia& via) {
    const RowEvents::Stream& stream = walk_.events_.stream(rows.stream);
    const UnitPassed passed = unit_passed(rows.counts_units ? rows.amount : stream.in_units(rows.amount), rows.soon);
    if (passed.unit < 0) return;
    // Of whole units nothing is rounded.
    if (passed.ended && rows.is_whole() && (rows.counts_units || static_cast<double>(stream.rows_to(passed.unit + 1)) == rows.amount))
      return after({rows.stream, true, passed.unit}, via.tail, via);
    const uint32_t rule = rule_of([&](const Rule& known) { return is_by(known, rows, via); }, [&] { return rule_by(rows, via); });
    found_.push_back({.rule = rule,
                      .entity = static_cast<uint32_t>(rows.stream),
                      .above = rows.above - walk_.periods_ * walk_.rules_[rule].of_period,
                      .unit = passed.unit - walk_.periods_ * walk_.units_[rows.stream],
                      .waits = true});
  }

  const Node& node(size_t index) const { return nodes_[index]; }
  std::span<const Wait> waits_of(uint32_t event) const {
    return {waits_.data() + events_[event].waits, waits_.data() + events_[event + 1].waits};
  }
  std::span<const Found> found_of(uint32_t event) const {
    return {found_.data() + events_[event].found, found_.data() + events_[event + 1].found};
  }
  int64_t units_of_sample(uint32_t entity) const { return units_of_sample_[entity]; }
  int64_t samples_of_period() const { return period_; }
  // Of an event so many samples later, and of a unit that is passed: its place in its own period, and how many periods before that is.
  int64_t later(uint32_t entity, int64_t event, uint32_t samples) const {
    return event + 2 * static_cast<int64_t>(samples) * units_of_sample_[entity];
  }

 private:
  void begin_event(bool ends) {
    events_.push_back({static_cast<uint32_t>(waits_.size()), static_cast<uint32_t>(found_.size())});
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
    const Rule rule{.stream = entity, .gives = true, .of_period = period_ * stream.blocks.rows};
    found_.push_back({.rule = rule_of([](const Rule& known) { return known.gives; }, [&] { return rule; }),
                      .entity = static_cast<uint32_t>(entity),
                      .above = stream.rows_to(unit) - walk_.periods_ * rule.of_period});
  }

  Rule rule_by(const RowsPassing& rows, const RowVia& via) const {
    const RowEvents::Stream& stream = walk_.events_.stream(rows.stream);
    Rule rule{.stream = rows.stream,
              .is_simple = rows.less->before == nullptr && (rows.counts_units || stream.single_rows),
              .counts_rows = !rows.counts_units && !stream.single_rows,
              .counts_units = rows.counts_units,
              .soon = rows.soon,
              .more = rows.more,
              .last_less = rows.less->rows,
              .least = rows.least,
              .tail = via.tail,
              .of_period = rows.counts_units ? walk_.units_[rows.stream] : period_ * stream.blocks.rows,
              .units_of_period = walk_.units_[rows.stream]};
    for (const RowsPassing::Less* one = rows.less->before; one != nullptr; one = one->before)
      rule.less.insert(rule.less.begin(), one->rows);
    return rule;
  }
  static bool is_by(const Rule& rule, const RowsPassing& rows, const RowVia& via) {
    if (rule.gives || rule.stream != rows.stream || rule.counts_units != rows.counts_units || rule.soon != rows.soon ||
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
  const int64_t period_;
  std::vector<int64_t> units_of_sample_;
  std::vector<Event> events_;
  std::vector<Wait> waits_;
  std::vector<Found> found_;
  std::vector<Node> nodes_;
  std::array<uint32_t, 256> numbers_{};
  std::array<std::vector<uint32_t>, 2> rules_of_call_;
  size_t calls_ = 0;
  bool ends_ = false;
};

RowWalk::RowWalk(const RowEvents& events, const RowRun& how)
    : events_(events), how_(how), periods_((how.samples + events.samples_of_period() - 1) / events.samples_of_period()) {
  for (size_t entity = 0; entity < events.entities(); ++entity) {
    first_node_.push_back(nodes_);
    units_.push_back(events.units_of(entity, events.samples_of_period()));
    nodes_ += 2 * to_size(units_.back());
  }
  MILLRACE_CHECK(std::cmp_less((periods_ + 1) * static_cast<int64_t>(nodes_), int64_t{1} << 31), "{} samples of {} events", how.samples,
                 nodes_);
  const Listing listing(*this);
  if (put_in_order(listing)) take(listing);
}

// False: some wait for each other in a circle, which has no first one.
bool RowWalk::put_in_order(const Listing& listing) {
  enum : uint8_t { kUnseen, kOpen, kPlaced };
  std::vector<uint8_t> state(nodes_, kUnseen);
  order_.reserve(nodes_);
  places_.resize(nodes_);
  struct Open {
    uint32_t node = 0;
    uint32_t samples = 0;
    const Listing::Wait *wait, *last_wait;
    const Listing::Found *found, *last_found;
  };
  std::vector<Open> open;
  const auto see = [&](uint32_t node) {
    const Listing::Node& of = listing.node(node);
    const std::span<const Listing::Wait> waits = listing.waits_of(of.event);
    const std::span<const Listing::Found> found = listing.found_of(of.event);
    state[node] = kOpen;
    open.push_back({node, of.samples, waits.data(), waits.data() + waits.size(), found.data(), found.data() + found.size()});
  };
  // The next one of the period that has no place yet; the node itself: there is none.
  const auto waited_for = [&](Open& at) {
    for (; at.wait != at.last_wait;) {
      const Listing::Wait& wait = *at.wait++;
      const int64_t event = listing.later(wait.entity, wait.event, at.samples);
      if (event < 0) continue;
      if (const auto other = static_cast<uint32_t>(first_node_[wait.entity] + to_size(event)); state[other] != kPlaced) return other;
    }
    for (; at.found != at.last_found;) {
      const Listing::Found& found = *at.found++;
      if (!found.waits) continue;
      const int64_t event = listing.later(found.entity, 2 * found.unit + (rules_[found.rule].soon ? 0 : 1), at.samples);
      if (event < 0) continue;
      if (const auto other = static_cast<uint32_t>(first_node_[found.entity] + to_size(event)); state[other] != kPlaced) return other;
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
  const auto place = [&](uint32_t entity, int64_t event) {
    int64_t back = 0;
    for (; event < 0; event += 2 * units_[entity]) ++back;
    reach_ = std::max(reach_, back);
    return places_[first_node_[entity] + to_size(event)] - static_cast<int32_t>(back * static_cast<int64_t>(nodes_));
  };
  size_t waits = 0, all_found = 0;
  for (const uint32_t node : order_) {
    waits += listing.waits_of(listing.node(node).event).size();
    all_found += listing.found_of(listing.node(node).event).size();
  }
  waits_.reserve(waits);
  found_.reserve(all_found);
  for (const uint32_t node : order_) {
    const auto& [event, samples] = listing.node(node);
    for (const Listing::Found& listed : listing.found_of(event)) {
      Found& found = found_.emplace_back();
      found.wait = static_cast<uint32_t>(waits_.size());
      found.rule = listed.rule;
      const Rule& rule = rules_[listed.rule];
      found.above = listed.above + samples * (rule.of_period / listing.samples_of_period());
      if (!listed.waits) continue;
      found.unit = listed.unit + samples * listing.units_of_sample(listed.entity);
      found.begin = place(listed.entity, listing.later(listed.entity, 2 * listed.unit, samples));
      found.end = place(listed.entity, listing.later(listed.entity, 2 * listed.unit + 1, samples));
    }
    for (const Listing::Wait& wait : listing.waits_of(event))
      waits_.push_back({place(wait.entity, listing.later(wait.entity, wait.event, samples)), 2 * wait.seconds});
    ++waits_.back().what;
  }
}

RowTimes RowWalk::run() {
  const size_t queues = events_.queues().size();
  if (order_.size() < nodes_)
    return {.stands_still = true, .peak_rows = std::vector<double>(queues), .samples_held = std::vector<double>(queues)};
  memory_ = std::make_unique_for_overwrite<double[]>(to_size(periods_) * nodes_ + 1);
  memory_[0] = kNever;
  times_ = memory_.get() + 1;
  for (int64_t index = 0; index < periods_; ++index) index < reach_ ? run_period<true>(index) : run_period<false>(index);
  return times();
}

[[gnu::always_inline]] inline double RowWalk::found_time(const Found& found, int64_t index, const double* now) const {
  const Rule& rule = rules_[found.rule];
  const int64_t above = found.above + index * rule.of_period, unit = found.unit + index * rule.units_of_period;
  if (rule.gives) return given_at(above);
  if (unit < 0) return kNever;
  double units = static_cast<double>(above) + rule.more;
  if (!rule.is_simple) {
    for (const double less : rule.less) units -= less;
    units -= rule.last_less;
    if (rule.counts_rows) units = events_.stream(rule.stream).in_units(units);
  } else {
    units -= rule.last_less;
  }
  const double part = part_of_unit(units, unit);
  MILLRACE_CHECK(part > 0, "{} units pass unit {} of a stream in one period of samples only", units, unit);
  if (!rule.soon && is_whole_unit(part)) return now[found.end] + rule.tail;
  const double begin = now[found.begin];
  return begin + part * (rule.soon ? rule.least : now[found.end] - begin) + rule.tail;
}

// kEarly: some of what is waited for would have been before the first sample.
template <bool kEarly>
void RowWalk::run_period(int64_t index) {
  const auto before = static_cast<int32_t>(index * static_cast<int64_t>(nodes_));
  double* const now = times_ + before;
  const double* const seconds = seconds_.data();
  const Wait* wait = waits_.data();
  double* next = now;
  double latest = 0;                                         // no time is less
  const std::array<double, 2> most_to_go_on = {-kNever, 0};  // behind an event's last wait nothing is left
  const auto go_on = [&](const Wait* end) {
    for (; wait != end; ++wait) {
      int32_t source = wait->source;
      if constexpr (kEarly) source = std::max(source, -before - 1);
      const double at = now[source] + seconds[wait->what / 2];
      latest = latest < at ? at : latest;
      *next = latest;
      const uint32_t is_last = wait->what % 2;
      next += is_last;
      latest = std::min(most_to_go_on[is_last], latest);
    }
  };
  for (const Found& found : found_) {
    go_on(waits_.data() + found.wait);
    const double at = found_time(found, index, now);
    latest = latest < at ? at : latest;
  }
  go_on(waits_.data() + waits_.size());
}

double RowWalk::given_at(int64_t rows) const {
  return how_.source_period * static_cast<double>(rows) / static_cast<double>(events_.stream(events_.same(*how_.source)).blocks.rows);
}

double RowWalk::time_of(const RowEvent& event) const {
  const int64_t units = units_[event.entity];
  return times_[event.unit / units * static_cast<int64_t>(nodes_) +
                places_[first_node_[event.entity] + 2 * to_size(event.unit % units) + (event.ends ? 1 : 0)]];
}

// Of all units of the run.
std::vector<double> RowWalk::times_of(size_t entity, bool ends) const {
  const int64_t count = events_.units_of(entity, how_.samples);
  std::vector<double> times;
  times.reserve(to_size(count));
  const int32_t* const places = places_.data() + first_node_[entity] + (ends ? 1 : 0);
  for (int64_t first = 0, period = 0; first < count; first += units_[entity], ++period)
    for (int64_t unit = 0; unit < std::min(units_[entity], count - first); ++unit)
      times.push_back(times_[period * static_cast<int64_t>(nodes_) + places[2 * unit]]);
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
