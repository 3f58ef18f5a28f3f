#include "node/simulate/simulate_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/plan/seats.h"
#include "node/simulate/blocks.h"
#include "node/simulate/collect.h"
#include "node/simulate/compile.h"
#include "node/simulate/engine.h"
#include "node/simulate/neighbour.h"
#include "node/simulate/pack.h"
#include "node/simulate/rank_watch.h"
#include "transport/streams/agreement.h"

namespace millrace {

using namespace simulation;

namespace {

constexpr int64_t kMessagesOnTheWay = 16;
constexpr int64_t kStepsOfPortion = 128;

// To the next rank and back, for each pair of neighbours.
FlowTable tables_of(int64_t ranks) {
  FlowTable table;
  table.devices = ranks;
  for (int64_t rank = 0; rank + 1 < ranks; ++rank)
    for (const bool ahead : {true, false})
      table.flows.push_back({.stream = Stream::kControl,
                             .tensor = "simulation",
                             .from = ahead ? rank : rank + 1,
                             .to = ahead ? rank + 1 : rank,
                             .most_bytes = Neighbour::message_bytes(),
                             .credits = kMessagesOnTheWay});
  return table;
}

class BlockRun {
 public:
  BlockRun(const Plan& plan, Engine& engine, Transport& transport, RankWatch& watch, int64_t first_device, int64_t end_device)
      : plan_(plan), engine_(engine), transport_(transport), watch_(watch), first_device_(first_device) {
    const int64_t rank = transport.rank();
    if (rank > 0) left_.emplace(transport, 2 * (rank - 1) + 1, 2 * (rank - 1), latency_of(first_device - 1));
    if (rank + 1 < transport.ranks()) right_.emplace(transport, 2 * rank, 2 * rank + 1, latency_of(end_device - 1));
  }

  void run() {
    hand_out();
    for (;;) {
      transport_.progress();
      bool moved = receive();
      moved = run_ahead() || moved;
      const bool sent = tell();
      if (sent && engine_.next_time() == kNeverTime && over(left_) && over(right_)) return;
      if (!moved) wait(!sent);
    }
  }

  int64_t messages() const { return (left_ ? left_->messages() : 0) + (right_ ? right_->messages() : 0); }

 private:
  int64_t latency_of(int64_t link) const { return item(plan_.links, link).latency_picoseconds; }
  static bool over(const std::optional<Neighbour>& side) { return !side || side->over(); }
  static int64_t bound_of(const std::optional<Neighbour>& side, Crosses what) { return side ? side->bound(what) : kNeverTime; }
  static int64_t firm_bound_of(const std::optional<Neighbour>& side, Crosses what) { return side ? side->firm_bound(what) : kNeverTime; }

  Horizon horizon() const {
    return {std::min(bound_of(left_, Crosses::kMessage), bound_of(right_, Crosses::kMessage)), bound_of(left_, Crosses::kCredit),
            bound_of(right_, Crosses::kCredit)};
  }
  Horizon firm_horizon() const {
    return {std::min(firm_bound_of(left_, Crosses::kMessage), firm_bound_of(right_, Crosses::kMessage)),
            firm_bound_of(left_, Crosses::kCredit), firm_bound_of(right_, Crosses::kCredit)};
  }
  // As far as one neighbour alone lets it.
  Horizon horizon_of(bool left) const {
    const std::optional<Neighbour>& side = left ? left_ : right_;
    const int64_t credits = bound_of(side, Crosses::kCredit);
    return {bound_of(side, Crosses::kMessage), left ? credits : kNeverTime, left ? kNeverTime : credits};
  }

  // What arrives may also answer what this block has yet to send there, which it does at `sends` at the soonest.
  static CrossingTimes arrivals_from(const std::optional<Neighbour>& side, const CrossingTimes& sends) {
    if (!side) return {kNeverTime, kNeverTime};
    const int64_t first = std::min(sends[0], sends[1]);
    const int64_t answer = first == kNeverTime ? kNeverTime : first + 2 * side->latency();
    const auto arrival = [&](Crosses what) { return std::max(side->firm_bound(what), std::min(side->bound(what), answer)); };
    return {arrival(Crosses::kMessage), arrival(Crosses::kCredit)};
  }

  bool receive() {
    bool some = left_ && left_->receive(engine_);
    return (right_ && right_->receive(engine_)) || some;
  }

  void hand_out() {
    for (const Crossing& crossing : engine_.outbox()) {
      const int64_t link = item(plan_.flows, crossing.plan_flow).link;
      (link == first_device_ - 1 ? *left_ : *right_).keep(crossing);
    }
    engine_.outbox().clear();
  }

  // In portions, so that what crosses the edge soon leaves, and whoever waits soon hears how far he may go.
  bool run_ahead() {
    bool moved = false;
    while (engine_.may_run(horizon())) {
      engine_.run_portion(horizon(), firm_horizon(), kStepsOfPortion);
      hand_out();
      const auto expects = [](const std::optional<Neighbour>& side) { return side && (side->has_crossings() || side->other_waits()); };
      if (expects(left_) || expects(right_)) tell();
      transport_.progress();
      receive();
      moved = true;
    }
    return moved;
  }

  // False when credit is missing for some of it.
  bool tell() {
    constexpr CrossingTimes kNothing{kNeverTime, kNeverTime};
    const CrossingTimes left = left_ ? promise_to(true) : kNothing;
    const CrossingTimes right = right_ ? promise_to(false) : kNothing;
    const Outlook outlook{earliest(horizon()), arrivals_from(left_, left), arrivals_from(right_, right)};
    bool all = true;
    if (left_) all = tell(*left_, horizon_of(false), left, engine_.quiet_until(true, outlook));
    if (right_) all = tell(*right_, horizon_of(true), right, engine_.quiet_until(false, outlook)) && all;
    return all;
  }

  bool tell(Neighbour& side, const Horizon& other, const CrossingTimes& promise, const CrossingTimes& quiet) {
    const int64_t last = std::min({engine_.next_time(), other.messages, other.left_credits, other.right_credits});
    const Neighbour::News news{promise, quiet, !engine_.may_run(horizon()), last == kNeverTime};
    return !side.wants_to_send(news) || side.send(news);
  }

  // Nothing happens here before then, when nothing comes before the horizon.
  int64_t earliest(const Horizon& horizon) { return std::min(engine_.next_time(), engine_.limit_of(horizon)); }

  // What leaves towards this side unless something new comes from there.
  CrossingTimes promise_to(bool left) {
    constexpr CrossingTimes kNothing{kNeverTime, kNeverTime};
    const int64_t soonest = earliest(horizon());
    const CrossingTimes from_other = arrivals_from(left ? right_ : left_, {soonest, soonest});
    const int64_t next = earliest(horizon_of(!left));
    return engine_.quiet_until(left, {next, left ? kNothing : from_other, left ? from_other : kNothing});
  }

  void wait(bool blocked) {
    std::vector<Interest> interests;
    if (left_) left_->add_interests(interests, blocked);
    if (right_) right_->add_interests(interests, blocked);
    watch_.pause();
    transport_.wait(interests);
    watch_.resume();
  }

  const Plan& plan_;
  Engine& engine_;
  Transport& transport_;
  RankWatch& watch_;
  int64_t first_device_;
  std::optional<Neighbour> left_, right_;
};

void check_latencies(const Plan& plan, const std::vector<int64_t>& blocks) {
  for (size_t rank = 0; rank + 2 < blocks.size(); ++rank) {
    const int64_t link = blocks[rank + 1] - 1;
    if (item(plan.links, link).latency_picoseconds == 0)
      fail(ErrorCode::kMismatch, "ranks {} and {} would meet at link {}, which has no latency to look ahead by; simulate on one rank", rank,
           rank + 1, link);
  }
}

std::string digest_of(const Plan& plan, const SimulationOptions& options) {
  std::string text = text_of(plan) + fmt::format("{} {} {} {} {} {} {} {}", options.samples, options.fc_barrier, options.act_ram,
                                                 options.fifo_rows, options.paced, options.trace, options.cores, options.trainer_ranks);
  const PairPace& pair = options.pair;
  text += fmt::format(" {} {} {}", pair.chunks_fetched, pair.single_memory, pair.load_picoseconds);
  for (const MeasuredActions& a : options.measured)
    text += fmt::format(" {} {} {} {} {}", a.forward, a.error_back, a.parameter_gradient, a.update, a.between);
  const SimulationScenario& s = options.scenario;
  for (const Straggler& straggler : s.stragglers) text += fmt::format(" {}={}", straggler.device, straggler.factor);
  text += fmt::format(" {} {} {} {}", s.straggler_share, s.straggler_most, s.jitter_picoseconds, s.seed);
  const Replicas& r = s.replicas;
  text += fmt::format(" {} {} {} {} {} {} {}", r.count, name_of(r.method), r.outer.bits_per_second, r.outer.latency_picoseconds,
                      r.group_size, r.inner.bits_per_second, r.inner.latency_picoseconds);
  return millrace::digest_of(text);
}

}  // namespace

SimulationResult simulate(const Plan& given, const Graph& graph, const SimulationOptions& options, Transport& transport) {
  const auto start = std::chrono::steady_clock::now();
  Agreement agreement(transport);
  agreement.require_equal("plan and options of a simulation", digest_of(given, options));
  check_options(given, graph, options);
  if (transport.ranks() > 1 && options.cores + options.trainer_ranks > 0)
    fail(ErrorCode::kUsage, "shared cores leave nothing to look ahead by from rank to rank; simulate on one rank");
  const Plan plan = plan_as_run(given, options);
  // A card acts for one of its places at a time, so they are all on one rank, and two cards fill the whole of a folded ring: every rank
  // simulates all of it, for none could go ahead of the others.
  const bool whole = transport.ranks() == 1 || folds(plan.cluster);
  const std::vector<int64_t> blocks = whole ? std::vector<int64_t>{} : blocks_of(plan, graph, options.fc_barrier, transport.ranks());
  check_latencies(plan, blocks);
  const int64_t first = whole ? 0 : item(blocks, transport.rank());
  const int64_t end = whole ? plan.devices() : item(blocks, transport.rank() + 1);
  Network network = compile(plan, graph, options, first, end);
  Engine engine(network, plan, options);
  transport.open(tables_of(transport.ranks()));
  agreement.barrier("simulation");
  RankWatch watch(first);
  int64_t messages = 0;
  engine.begin();
  if (whole) {
    engine.run_until(kNeverTime);
  } else {
    BlockRun block(plan, engine, transport, watch, first, end);
    block.run();
    messages = block.messages();
  }
  SimulatedRank work = watch.stop(engine);
  work.messages = messages;
  const std::string stuck = engine.done() ? "" : fmt::format("the simulation deadlocks after {} ps: {}", engine.now(), engine.stuck());
  agreement.require_all("simulating", stuck, ErrorCode::kStandstill);
  SimulationResult mine = collect(engine, network, plan);
  mine.ranks = {work};
  const std::vector<std::string> all = agreement.gather("results of a simulation", packed(mine));
  agreement.close();
  if (transport.rank() > 0) return {};
  std::vector<SimulationResult> results;
  for (const std::string& bytes : all) {
    SimulationResult one = unpacked(bytes);
    if (whole && !results.empty())
      results.front().ranks.push_back(one.ranks.front());
    else
      results.push_back(std::move(one));
  }
  SimulationResult result = combine(plan, graph, std::move(results));
  result.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace millrace
