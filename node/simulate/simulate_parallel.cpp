#include "node/simulate/simulate_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/base/error.h"
#include "core/base/files.h"
#include "node/simulate/collect.h"
#include "node/simulate/compile.h"
#include "node/simulate/engine.h"
#include "node/simulate/measured.h"
#include "node/simulate/neighbour.h"
#include "node/simulate/pack.h"
#include "transport/streams/agreement.h"

namespace millrace {

using namespace simulation;

namespace {

constexpr int64_t kMessagesOnTheWay = 16;

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
  BlockRun(const Plan& plan, Engine& engine, Transport& transport, int64_t first_device, int64_t end_device)
      : plan_(plan), engine_(engine), transport_(transport), first_device_(first_device) {
    const int64_t rank = transport.rank();
    if (rank > 0) left_.emplace(transport, 2 * (rank - 1) + 1, 2 * (rank - 1), latency_of(first_device - 1));
    if (rank + 1 < transport.ranks()) right_.emplace(transport, 2 * rank, 2 * rank + 1, latency_of(end_device - 1));
    for (const std::optional<Neighbour>* side : {&left_, &right_})
      if (*side) shortest_ = std::min(shortest_, (*side)->latency());
  }

  void run() {
    hand_out();
    for (;;) {
      transport_.progress();
      bool moved = receive();
      moved = run_ahead() || moved;
      const bool sent = tell();
      if (sent && engine_.next_time() == kNeverTime && bound() == kNeverTime) return;
      if (!moved) wait(!sent);
    }
  }

 private:
  int64_t latency_of(int64_t link) const { return plan_.links[static_cast<size_t>(link)].latency_picoseconds; }
  static int64_t bound_of(const std::optional<Neighbour>& side) { return side ? side->bound() : kNeverTime; }
  int64_t bound() const { return std::min(bound_of(left_), bound_of(right_)); }

  bool receive() {
    bool some = left_ && left_->receive(engine_);
    return (right_ && right_->receive(engine_)) || some;
  }

  void hand_out() {
    for (const Crossing& crossing : engine_.outbox()) {
      const int64_t link = plan_.flows[static_cast<size_t>(crossing.plan_flow)].link;
      (link == first_device_ - 1 ? *left_ : *right_).keep(crossing);
    }
    engine_.outbox().clear();
  }

  // What the block sends arrives a latency later, and is answered a latency after that: so far it can go at once.
  bool run_ahead() {
    bool moved = false;
    for (int64_t limit = bound(); engine_.next_time() < limit; limit = bound()) {
      const int64_t ahead = engine_.next_time() + 2 * shortest_;
      engine_.run_until(std::min(limit, ahead));
      moved = true;
      if (engine_.outbox().empty()) continue;
      hand_out();
      tell();
    }
    return moved;
  }

  // False when credit is missing for some of it.
  bool tell() {
    const int64_t next = engine_.next_time();
    bool all = true;
    const auto tell_side = [&](std::optional<Neighbour>& side, const std::optional<Neighbour>& other) {
      if (!side) return;
      const int64_t promise = std::min(next, bound_of(other));
      if (side->wants_to_send(promise)) all = side->send(promise) && all;
    };
    tell_side(left_, right_);
    tell_side(right_, left_);
    return all;
  }

  void wait(bool blocked) {
    std::vector<Interest> interests;
    if (left_) left_->add_interests(interests, blocked);
    if (right_) right_->add_interests(interests, blocked);
    transport_.wait(interests);
  }

  const Plan& plan_;
  Engine& engine_;
  Transport& transport_;
  int64_t first_device_;
  int64_t shortest_ = kNeverTime / 4;
  std::optional<Neighbour> left_, right_;
};

void check_latencies(const Plan& plan, const RingLayout& layout) {
  for (int64_t rank = 0; rank + 1 < layout.ranks; ++rank) {
    const int64_t link = layout.end_device(rank) - 1;
    if (plan.links[static_cast<size_t>(link)].latency_picoseconds == 0)
      fail(ErrorCode::kMismatch, "ranks {} and {} would meet at link {}, which has no latency to look ahead by; simulate on one rank", rank,
           rank + 1, link);
  }
}

std::string digest_of(const Plan& plan, const SimulationOptions& options) {
  std::string text = text_of(plan) + fmt::format("{} {} {} {} {} {} {} {}", options.samples, options.fc_barrier, options.act_ram,
                                                 options.fifo_rows, options.paced, options.trace, options.cores, options.trainer_ranks);
  for (const MeasuredActions& a : options.measured)
    text += fmt::format(" {} {} {} {} {}", a.forward, a.error_back, a.parameter_gradient, a.update, a.between);
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
  const Plan plan = options.measured.empty() ? given : with_measured_times(given, options.measured);
  const RingLayout layout = ring_layout(plan.devices(), transport.ranks());
  check_latencies(plan, layout);
  const int64_t first = layout.first_device(transport.rank());
  const int64_t end = layout.end_device(transport.rank());
  Network network = compile(plan, graph, options, first, end);
  Engine engine(network, plan, options);
  transport.open(tables_of(transport.ranks()));
  agreement.barrier("simulation");
  engine.begin();
  if (transport.ranks() == 1) {
    engine.run_until(kNeverTime);
  } else {
    BlockRun(plan, engine, transport, first, end).run();
  }
  const std::string stuck = engine.done() ? "" : fmt::format("the simulation deadlocks after {} ps: {}", engine.now(), engine.stuck());
  agreement.require_all("simulating", stuck, ErrorCode::kMismatch);
  const std::vector<std::string> all = agreement.gather("results of a simulation", packed(collect(engine, network, plan)));
  agreement.close();
  if (transport.rank() > 0) return {};
  std::vector<SimulationResult> blocks;
  for (const std::string& bytes : all) blocks.push_back(unpacked(bytes));
  SimulationResult result = combine(plan, graph, std::move(blocks));
  result.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace millrace
