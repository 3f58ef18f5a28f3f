#include "partitioner/choice/choose.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/rings_side_by_side.h"
#include "core/plan/seats.h"
#include "core/plan/time_chunking.h"
#include "partitioner/choice/ring_choice.h"
#include "partitioner/hybrid/hybrid_planner.h"
#include "partitioner/hybrid/places_to_try.h"

namespace millrace {
namespace {

constexpr size_t kMostKinds = 4;

// The first devices make `count` like rings of so many, one behind the other.
bool like_rings(const PlanTask& task, size_t count, size_t size) {
  for (size_t d = size; d < count * size; ++d)
    if (task.models[d] != task.models[d - size]) return false;
  for (size_t link = 0; link + 1 < count * size; ++link)
    if ((link + 1) % size != 0 && task.cluster.links[link] != task.cluster.links[link % size]) return false;
  return true;
}

// One of `count` like rings, as long as can be; nothing where the devices do not make them.
std::optional<PlanTask> ring_of(const PlanTask& task, int64_t count, bool leave_over) {
  if (count == 1) return task;
  if (count < 1 || count > std::ssize(task.models) || task.options.mini_batch % count != 0) return std::nullopt;
  const auto rings = to_size(count);
  size_t size = task.models.size() / rings;
  if (!leave_over && size * rings != task.models.size()) return std::nullopt;
  while (size > 0 && !like_rings(task, rings, size)) size = leave_over ? size - 1 : 0;
  if (size == 0) return std::nullopt;
  PlanTask ring = task;
  ring.models.resize(size);
  ring.cluster.devices.resize(size);
  ring.cluster.links.resize(size - 1);
  ring.options.mini_batch = task.options.mini_batch / count;
  if (ring.options.micro_batch > 0 && ring.options.mini_batch % ring.options.micro_batch != 0) return std::nullopt;
  if (count > 1 && task.replicated_mini_batch_time)
    ring.mini_batch_time = [time = task.replicated_mini_batch_time, count](const Plan& plan, const Graph& graph) {
      return time(plan, graph, count);
    };
  return ring;
}

PlanTask in_order(const PlanTask& task, const RingOrder& order) {
  PlanTask other = task;
  other.cluster = order.cluster;
  other.models = order.models;
  return other;
}

// A way to use the devices: an order, and a number of rings.
struct Way {
  std::string order;
  int64_t replicas = 1;
  PlanTask task;
};

struct Answer {
  const Way* way = nullptr;
  Outcome outcome;
  std::string idle;
  std::optional<std::pair<std::string, double>> next_idle;
};

// Devices without work: of each of several rings, and left over behind them.
std::string with_left_over(const PlanTask& whole, const Way& way, const std::string& idle) {
  if (way.replicas == 1) return idle;
  Places rings(to_size(way.replicas) * way.task.models.size());
  std::iota(rings.begin(), rings.end(), 0);
  const std::string over = device_list(whole, rings);
  if (idle == "none") return over;
  return fmt::format("{} of every ring{}", idle, over == "none" ? "" : fmt::format(", and of the whole {}", over));
}

class Chooser {
 public:
  Chooser(const PlanTask& task, const Freedom& freedom) : task_(&task), freedom_(&freedom) {
    const bool by_hand = !task.options.pins.empty() || !task.options.cuts.empty() || task.options.strategy != Strategy::kHybrid;
    const bool by_cuts = !task.options.pins.empty() || !task.options.cuts.empty();
    leave_empty_ = freedom.leave_empty && !task.options.every_board && (!by_hand || (task.options.strategy == Strategy::kKind && !by_cuts));
    for (const int64_t count : freedom.replicas) {
      const auto add = [&](const std::string& order, const PlanTask& whole) {
        if (std::optional<PlanTask> ring = ring_of(whole, count, freedom.leave_over)) ways_.push_back({order, count, std::move(*ring)});
      };
      add("as given", task);
      for (const RingOrder& order : freedom.orders) add(order.name, in_order(task, order));
    }
    if (ways_.empty())
      fail(ErrorCode::kUsage, "{} devices and a mini-batch of {} make no {} like rings; name a number of rings that divides both",
           task.models.size(), task.options.mini_batch, freedom.replicas.empty() ? 0 : freedom.replicas.front());
  }

  ChosenPlan run() {
    const auto start = std::chrono::steady_clock::now();
    Answer best;
    for (const Way& way : ways_) {
      const double wanted = rate_of(best.outcome) * (1 + kWorthChoosing);
      if (best.outcome.feasible && !can_reach(way.task, wanted / static_cast<double>(way.replicas), /*closely=*/true, leave_empty_))
        continue;
      Answer answer = answer_of(way, false);
      if (best.way != nullptr && rate_of(answer.outcome) <= wanted) continue;
      best = std::move(answer);
    }
    add_choices(best);
    ChosenPlan chosen{best.way->task, std::move(best.outcome)};
    chosen.outcome.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return chosen;
  }

 private:
  Answer answer_of(const Way& way, bool next_best) const {
    RingChoice ring = choose_devices(way.task, leave_empty_, next_best);
    Answer answer{&way, std::move(ring.outcome), std::move(ring.idle), std::move(ring.next_best)};
    answer.outcome.replicas = way.replicas;
    if (way.replicas > 1 && answer.outcome.plan)
      answer.outcome.plan->constants.push_back({std::string(kRingsSideBySide), static_cast<double>(way.replicas), "chosen"});
    count_rings(answer.outcome.summary, way.replicas);
    if (answer.next_idle) answer.next_idle->second *= static_cast<double>(way.replicas);
    return answer;
  }

  void add_choices(Answer& best) const {
    if (!best.outcome.feasible || !best.outcome.plan) return;
    std::vector<Choice>& choices = best.outcome.choices;
    const Way& way = *best.way;
    if (freedom_->orders.size() > 0)
      choices.push_back(next_way(best, "order", way.order, [&](const Way& other) {
        return other.replicas == way.replicas && other.order != way.order ? other.order : "";
      }));
    if (freedom_->replicas.size() > 1)
      choices.push_back(next_way(best, "replicas", fmt::format("{}", way.replicas), [&](const Way& other) {
        return other.order == way.order && other.replicas != way.replicas ? fmt::format("{}", other.replicas) : "";
      }));
    if (leave_empty_) {
      Choice choice{"devices without work", with_left_over(in_order_of(way.order), way, best.idle), "", 0};
      if (freedom_->next_best) {
        const Answer again = answer_of(way, true);
        if (again.next_idle) std::tie(choice.next_best, choice.samples_per_second) = *again.next_idle;
      }
      choices.push_back(std::move(choice));
    }
    if (task_->options.micro_batch == 0) choices.push_back(micro_batch_choice(best));
    if (task_->options.time_chunks == 0) choices.push_back(time_chunks_choice(best));
  }

  template <typename Name>
  Choice next_way(const Answer& best, std::string what, std::string chosen, const Name& name_of_other) const {
    Choice choice{std::move(what), std::move(chosen), "", 0};
    static_cast<void>(best);
    for (const Way& other : ways_) {
      const std::string name = name_of_other(other);
      if (name.empty() || !freedom_->next_best) continue;
      const double rate = rate_of(answer_of(other, false).outcome);
      if (rate <= choice.samples_per_second) continue;
      choice.next_best = name;
      choice.samples_per_second = rate;
    }
    return choice;
  }

  // The best of the task with another setting.
  template <typename Settings, typename Set>
  Choice next_setting(const Answer& best, std::string what, int64_t chosen, const Settings& others, const Set& set) const {
    Choice choice{std::move(what), fmt::format("{}", chosen), "", 0};
    for (const int64_t setting : others) {
      Way other = *best.way;
      set(other.task.options, setting);
      const double rate = rate_of(answer_of(other, false).outcome);
      if (rate <= choice.samples_per_second) continue;
      choice.next_best = fmt::format("{}", setting);
      choice.samples_per_second = rate;
    }
    return choice;
  }

  Choice micro_batch_choice(const Answer& best) const {
    const int64_t chosen = best.outcome.plan->micro_batch;
    // Where boards stream, large micro-batches take long to plan and to simulate: the neighbours tell.
    const bool some_stream = std::ranges::any_of(best.way->task.models, [](const CostModel* model) { return model->dedicated_engines(); });
    std::vector<int64_t> sizes = freedom_->next_best ? micro_batches_to_try(best.way->task) : std::vector<int64_t>{};
    std::erase_if(sizes, [&](int64_t size) { return size == chosen || (some_stream && size != 2 * chosen && chosen != 2 * size); });
    return next_setting(best, "micro-batch", chosen, sizes, [](PlanOptions& options, int64_t size) { options.micro_batch = size; });
  }

  Choice time_chunks_choice(const Answer& best) const {
    const int64_t chosen = best.outcome.plan->time_chunks;
    std::vector<int64_t> counts;  // half of them and twice as many tell
    if (freedom_->next_best) counts = {chosen / 2, 2 * chosen};
    std::erase_if(counts, [&](int64_t chunks) { return chunks < 1 || chunks > most_time_chunks(*task_->graph); });
    return next_setting(best, "chunks of time", chosen, counts, [](PlanOptions& options, int64_t chunks) { options.time_chunks = chunks; });
  }

  PlanTask in_order_of(const std::string& name) const {
    for (const RingOrder& order : freedom_->orders)
      if (order.name == name) return in_order(*task_, order);
    return *task_;
  }

  const PlanTask* task_;
  const Freedom* freedom_;
  bool leave_empty_ = false;
  std::vector<Way> ways_;
};

// Engines of boards take sequences whole, and rows of them stream anyway; what recurrent layers keep cannot be made again in parts.
bool may_choose_chunks(const PlanTask& task) {
  const PlanOptions& options = task.options;
  const auto streams = [](const CostModel* model) { return model->dedicated_engines(); };
  if (options.strategy == Strategy::kKind)  // boards take steps as their sums come
    return options.accounting == Accounting::kFull && options.pair_mode == PairMode::kOverlap && !options.recompute &&
           most_time_chunks(*task.graph) > 1;
  return options.accounting == Accounting::kFull && (options.strategy == Strategy::kHybrid || options.strategy == Strategy::kLayer) &&
         !options.recompute && task.models.size() > 1 && std::ranges::none_of(task.models, streams) && may_pass_in_chunks(*task.graph);
}

}  // namespace

ChosenPlan choose_plan(const PlanTask& asked, const Freedom& freedom) {
  PlanTask task = asked;
  if (task.options.time_chunks == 0 && !may_choose_chunks(task)) task.options.time_chunks = 1;
  // Parameters that live elsewhere travel once per micro-batch.
  if (task.options.time_chunks > 1 && task.options.balance == Balance::kAuto) task.options.balance = Balance::kNever;
  const bool one_ring = std::ranges::all_of(freedom.replicas, [](int64_t count) { return count == 1; });
  if (folds(task.cluster) && (!one_ring || !freedom.orders.empty()))
    fail(ErrorCode::kUsage, "cards that fill several places of the ring have one order and one ring; leave --replicas and --order out");
  return Chooser(task, freedom).run();
}

Freedom usual_freedom(const PlanTask& task) {
  Freedom freedom{.leave_over = true};
  const bool by_hand = !task.options.pins.empty() || !task.options.cuts.empty() || task.options.strategy != Strategy::kHybrid;
  const bool some_stream = std::ranges::any_of(task.models, [](const CostModel* model) { return model->dedicated_engines(); });
  if (by_hand || some_stream || task.options.accounting != Accounting::kFull || task.models.size() > kLongestToShorten) return freedom;
  for (int64_t count = 2; count <= std::ssize(task.models); ++count)
    if (task.options.mini_batch % count == 0) freedom.replicas.push_back(count);
  return freedom;
}

std::vector<std::vector<int64_t>> orders_of_kinds(const Cluster& cluster) {
  std::vector<std::string> kinds;
  for (const DeviceEntry& device : cluster.devices)
    if (std::ranges::find(kinds, device.device) == kinds.end()) kinds.push_back(device.device);
  if (kinds.size() > kMostKinds) return {};
  std::ranges::sort(kinds);
  std::vector<std::vector<int64_t>> orders;
  do {
    std::vector<int64_t> order;
    for (const std::string& kind : kinds)
      for (size_t d = 0; d < cluster.devices.size(); ++d)
        if (cluster.devices[d].device == kind) order.push_back(static_cast<int64_t>(d));
    if (!std::ranges::is_sorted(order)) orders.push_back(std::move(order));
  } while (std::ranges::next_permutation(kinds).found);
  return orders;
}

void count_rings(PlanSummary& summary, int64_t rings) {
  summary.images_per_second *= static_cast<double>(rings);
  summary.lower_bound_images_per_second *= static_cast<double>(rings);
  summary.faster_between_updates *= static_cast<double>(rings);
}

}  // namespace millrace
