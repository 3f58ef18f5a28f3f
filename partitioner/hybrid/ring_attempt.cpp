#include "partitioner/hybrid/ring_attempt.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/beside.h"
#include "core/base/index.h"
#include "partitioner/hybrid/ring_plan.h"
#include "partitioner/planning/roomy_memory.h"

namespace millrace {
namespace {

// By how much a plan has to be faster for devices to stay without work.
constexpr double kWorthEmptyDevices = 1e-6;
// By how much a plan is slower than its search promised where others are tried.
constexpr double kWorthCounting = 1e-4;
// By how much longer periods are tried then, and which part of the loss at least.
constexpr double kSlower[] = {0, 2e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 0.016, 0.032, 0.064, 0.128, 0.25, 0.5, 1, 1.5, 2, 3, 5, 8};
constexpr double kLeastPart = 8;
// Not longer but where boards have two kinds of blocks: where those find too few at periods little longer they have hardly enough, and each
// look is as thorough as can be, also between the one that finds enough and the one before.
constexpr double kMostSlower = 1, kLittleSlower = 0.016, kPartsBetween = 5;
// How far a plan may be from what is ruled out before both are looked at as engines are built; and how close they are to come then.
constexpr double kWorthLooking = 1e-3, kCloseEnough = 2e-4;
// By how much less than the shortest period that is found another is ruled out.
constexpr double kClosest = 1e-9;
// As close as bounds are found.
constexpr double kOfBounds = 1e-4;
// Block RAMs that stand in for a block of UltraRAM at most; and UltraRAMs that a column takes of memories up to 65,536 words deep, of which
// some may be left over where one is cut.
constexpr double kBram36OfUram = 8, kUramsOfColumn = 16;

// Of the memory of boards with two kinds of blocks, for searches that count what is built: sums at whole rates of exchange say too little
// of memories whose rate lies between two, and a column may be left over.
constexpr double kPartsOfMemory[] = {1, 0.98, 0.95};

// For what no cuts can keep: with larger engines counted as the least that they may take.
PlanTask with_least_engines(const PlanTask& task, bool allow_empty, StreamedWords words = StreamedWords::kLeast) {
  PlanTask least = task;
  least.options.allow_empty = allow_empty;
  least.options.streamed_words = words;
  return least;
}

// Where devices stay without work if that is faster.
bool may_leave_empty(const PlanTask& task) {
  const bool ordered = !task.options.pins.empty() || !task.options.cuts.empty();
  return task.options.allow_empty || !(ordered || task.models.size() < 2);
}

// The same task with its words counted in another way, not solved.
std::shared_ptr<const RingAttempt> with_words(const PlanTask& task, int64_t micro_batch, StreamedWords words) {
  PlanTask counting = task;
  counting.options.streamed_words = words;
  return std::make_shared<const RingAttempt>(std::move(counting), micro_batch);
}

double amount_of(std::span<const NamedAmount> amounts, std::string_view name) {
  const auto found = std::ranges::find(amounts, name, &NamedAmount::name);
  return found == amounts.end() ? 0 : found->amount;
}

bool has_two_kinds(const CostModel& model) { return amount_of(model.inventory(), "uram") > 0; }

// The task with words and memory counted as built, and so large a part of each memory of two kinds of blocks, not solved. Boards that have
// those may have larger engines than need be, or not: then fewer cuts fit, and others are found.
std::shared_ptr<const RingAttempt> as_built(const PlanTask& task, int64_t micro_batch, double part, bool enlarges = true) {
  PlanTask smaller = task;
  smaller.options.streamed_words = StreamedWords::kBuilt;
  std::map<const CostModel*, std::shared_ptr<const CostModel>> parts;  // devices of one kind stay so
  std::vector<std::shared_ptr<const CostModel>> owners;
  for (const CostModel*& model : smaller.models) {
    if ((part == 1 && enlarges) || !has_two_kinds(*model)) continue;
    std::shared_ptr<const CostModel>& of_model = parts[model];
    if (!of_model) owners.push_back(of_model = std::make_shared<PartOfMemory>(*model, part, enlarges));
    model = of_model.get();
  }
  return std::make_shared<const RingAttempt>(std::move(smaller), micro_batch, std::move(owners));
}

// For what no engines can keep as they are built.
PlanTask with_least_built(const PlanTask& task) {
  PlanTask least = with_least_engines(task, may_leave_empty(task), StreamedWords::kLeastBuilt);
  least.options.waiting_seconds.clear();
  least.options.more_samples = 0;
  return least;
}

// Whether larger engines than the smallest are counted as they are built, for a bound and for a plan.
bool looks_at_built(const RingAttempt& attempt) {
  return attempt.solver.counts_engines() && attempt.task.models.size() <= kLongRing && streams_rows(attempt.task);
}

// In steps of channels parts of a layer count as no smaller than their own parts, which rules out too much where they are.
double nearly(double bound) { return bound / (1 + kOfBounds); }

// Of another solution than the attempt's own.
Candidate candidate_of(const PlanTask& task, const std::shared_ptr<const RingAttempt>& attempt, const RingSolution& solution,
                       double lower_bound) {
  const int64_t chunks = std::max<int64_t>(1, task.options.time_chunks);
  Candidate candidate{.attempt = attempt, .plan = ring_plan(task, attempt->solver, solution, chunks), .summary = {}};
  candidate.plan.lower_bound_seconds_per_image = lower_bound;
  candidate.summary = summarize(candidate.plan, *task.graph);
  set_bound(lower_bound, candidate);
  if (task.options.accounting == Accounting::kFull) candidate.summary.images_per_second = 1 / candidate.summary.seconds_per_image;
  return candidate;
}

// What is built, not what a search reserved.
bool fits_devices(const Candidate& candidate) {
  return std::ranges::all_of(candidate.summary.devices, [](const DeviceFigures& device) {
    const bool has_logic = device.lut_capacity <= 0 || (device.lut <= device.lut_capacity && device.ff <= device.ff_capacity);
    return has_logic && device.memory_fraction <= 1 + 1e-9;
  });
}

// Blocks of two kinds can stand in for each other, as far as whole columns of words go. Whether those that are planned are enough, each
// memory counted in one kind; where they are not, shares of another size may be, which whoever has the memories knows.
bool packs_blocks(const PlanTask& task, const Candidate& candidate) {
  // Of these no memories are generated beside recurrent engines yet.
  const auto recurs = [](const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; };
  if (std::ranges::any_of(task.graph->nodes(), recurs)) return true;
  struct Blocks {
    double uram = 0, bram36 = 0;
  };
  std::vector<Blocks> planned(task.models.size());
  for (const Shard& shard : candidate.plan.shards) {
    Blocks& blocks = fast_item(planned, shard.device);
    for (const NamedAmount& amount : shard.resources) {
      if (amount.name.ends_with("bram36")) blocks.bram36 += amount.amount;
      if (amount.name.ends_with("uram")) blocks.uram += amount.amount;
    }
  }
  for (size_t d = 0; d < planned.size(); ++d) {
    const std::vector<NamedAmount> inventory = task.models[d]->inventory();
    const double urams = amount_of(inventory, "uram");
    if (urams <= 0) continue;
    double bram36 = planned[d].bram36;
    if (planned[d].uram > urams) bram36 += kBram36OfUram * (planned[d].uram - urams + kUramsOfColumn);
    if (bram36 > amount_of(inventory, "bram36")) return false;
  }
  return true;
}

}  // namespace

bool has_two_kinds(const PlanTask& task) {
  return std::ranges::any_of(task.models, [](const CostModel* model) { return has_two_kinds(*model); });
}

bool may_reserve_too_much(const PlanTask& task) {
  return has_two_kinds(task) || std::ranges::any_of(task.graph->nodes(), [](const Node& node) {
           const auto* convolution = std::get_if<Conv2d>(&node.layer.operation);
           return convolution != nullptr && convolution->groups == 2;
         });
}

BegunBound::BegunBound(PlanTask the_least, int64_t micro_batch, double the_period)
    : least(std::move(the_least), micro_batch),
      period(the_period),
      is_ruled_out(beside([&solver = least.solver, the_period] { return solver.rules_out(the_period); })) {}

void set_bound(double bound, Candidate& candidate) {
  candidate.plan.lower_bound_seconds_per_image = bound;
  candidate.plan.optimality_gap = std::max(0.0, candidate.summary.seconds_per_image / bound - 1);
}

double longest_ruled_out_as_built(const PlanTask& task, int64_t micro_batch, double known, double bound) {
  const RingAttempt least(with_least_built(task), micro_batch);
  return least.solver.longest_ruled_out(nearly(known), bound);
}

std::unique_ptr<RingAttempt> best_attempt(const PlanTask& task, int64_t micro_batch) {
  auto busy = std::make_unique<RingAttempt>(task, micro_batch);
  const bool all_work = task.options.allow_empty || !may_leave_empty(task);
  const auto begin_bound = [&](double period) {
    if (!all_work && looks_at_built(*busy))
      busy->begun = std::make_shared<BegunBound>(with_least_built(busy->task), micro_batch, nearly(period / (1 + kClosest)));
  };
  busy->solution = busy->solver.solve(Effort::kThorough, begin_bound);
  const bool known = busy->solution.feasible && task.models.size() > kLongRing;
  const RingAttempt least(with_least_engines(task, task.options.allow_empty || !(all_work || known)), micro_batch);
  const auto with_bound = [&](std::unique_ptr<RingAttempt> attempt) {
    RingSolution& solution = attempt->solution;
    if (least.solver.counts_engines() && solution.feasible) solution.lower_bound = least.solver.longest_ruled_out(solution.lower_bound);
    return attempt;
  };
  if (all_work || known) return with_bound(std::move(busy));
  PlanTask relaxed = task;
  relaxed.options.allow_empty = true;
  if (!busy->solution.feasible) {
    auto idle = std::make_unique<RingAttempt>(std::move(relaxed), micro_batch);
    idle->solution = idle->solver.solve();
    return idle->solution.feasible ? with_bound(std::move(idle)) : std::move(busy);
  }
  const double shorter = busy->solution.period / (1 + kClosest);  // as close as the bisections come
  if (least.solver.rules_out(shorter)) {
    busy->solution.lower_bound = std::min(busy->solution.lower_bound, shorter);
    return busy;
  }
  // Else as close as matters.
  const double matters = busy->solution.period / (1 + kWorthEmptyDevices);
  auto idle = std::make_unique<RingAttempt>(std::move(relaxed), micro_batch);
  if (idle->solver.rules_out(matters)) {
    busy->solution.lower_bound = std::min(busy->solution.lower_bound, matters);
    return with_bound(std::move(busy));
  }
  idle->solution = idle->solver.solve();
  if (idle->solution.feasible && idle->solution.period < matters) return with_bound(std::move(idle));
  busy->solution.lower_bound = std::min(busy->solution.lower_bound, idle->solution.lower_bound);
  return with_bound(std::move(busy));
}

bool cuts_rule_out(const PlanTask& task, int64_t micro_batch, double period) {
  const PlanTask least = with_least_engines(task, true);
  return RingSolver(least, micro_batch).rules_out(period, Effort::kQuick);
}

Candidate candidate_of(const PlanTask& task, const std::shared_ptr<const RingAttempt>& attempt, double lower_bound) {
  return candidate_of(task, attempt, attempt->solution, lower_bound);
}

BegunLook::BegunLook(const PlanTask& searched, int64_t micro_batch, double period)
    : attempt_(with_words(searched, micro_batch, StreamedWords::kBuilt)), period_(period) {
  solution_ = beside([attempt = attempt_, period] { return attempt->solver.solve_within(period); });
}

namespace {

// For plans of one task whose engines are counted as they are built, between what is ruled out and what is known.
class LooksAsBuilt {
 public:
  LooksAsBuilt(const PlanTask& task, const PlanTask& searched, int64_t micro_batch, double bound, double known, BegunLook* begun)
      : task_(&task), bound_(bound), low_(bound), high_(known), begun_(begun) {
    built_.push_back(begun != nullptr ? begun->attempt() : with_words(searched, micro_batch, StreamedWords::kBuilt));
    if (!has_two_kinds(searched)) return;
    for (const double part : kPartsOfMemory)
      if (part < 1) built_.push_back(as_built(searched, micro_batch, part));
    // A search may miss what another finds that counts less.
    reserved_ = with_words(searched, micro_batch, searched.options.streamed_words);
  }

  double high() const { return high_; }
  std::optional<Candidate> fastest() { return std::move(fastest_); }
  // Whether there is one at a period that is faster than what is known.
  bool look(double at) {
    BegunLook* const begun = std::exchange(begun_, nullptr);
    const bool is_begun = begun != nullptr && begun->period() == at;
    for (const std::shared_ptr<const RingAttempt>& built : built_) {
      const RingSolution solution = is_begun && built == built_.front() ? begun->solution() : built->solver.solve_within(at);
      if (take(built, solution)) return true;
      if (!solution.feasible) break;  // with less memory neither
    }
    if (reserved_) {
      RingSolution solution = reserved_->solver.solve_within(at);
      if (take(reserved_, solution)) return true;
      solution.least_room = true;
      if (take(reserved_, solution)) return true;
    }
    low_ = std::max(low_, at);
    return false;
  }
  bool look_near_bound() { return look(low_ * (1 + kCloseEnough)); }
  void raise_bound(double bound) {
    bound_ = std::max(bound_, bound);
    if (bound_ * (1 + kCloseEnough) <= low_) return;
    low_ = bound_;
    look_near_bound();
  }
  void bisect() {
    while (high_ > low_ * (1 + kWorthLooking)) look(low_ + (high_ - low_) / 2);
  }

 private:
  bool packs(const Candidate& found) const {
    return packs_blocks(*task_, found) || (task_->finds_blocks && task_->finds_blocks(found.plan, *task_->graph, /*thoroughly=*/false));
  }
  bool take(const std::shared_ptr<const RingAttempt>& attempt, const RingSolution& solution) {
    if (!solution.feasible) return false;
    Candidate found = candidate_of(*task_, attempt, solution, bound_);
    if (found.summary.seconds_per_image >= high_ || !fits_devices(found) || !packs(found)) return false;
    high_ = found.summary.seconds_per_image;
    fastest_ = std::move(found);
    return true;
  }

  const PlanTask* task_;
  std::vector<std::shared_ptr<const RingAttempt>> built_;  // with all of the memory first, and, of two kinds of blocks, with less
  std::shared_ptr<const RingAttempt> reserved_;
  double bound_, low_, high_;
  BegunLook* begun_;
  std::optional<Candidate> fastest_;
};

}  // namespace

std::optional<Candidate> fastest_as_built(const PlanTask& task, const PlanTask& searched, int64_t micro_batch, double known, double& bound,
                                          const std::function<double(double known)>& better_bound, BegunLook* begun) {
  LooksAsBuilt looks(task, searched, micro_batch, bound, known, begun);
  looks.look_near_bound();
  if (better_bound && looks.high() > bound * (1 + kWorthLooking)) {
    bound = std::max(bound, better_bound(looks.high()));
    looks.raise_bound(bound);
  }
  looks.bisect();
  return looks.fastest();
}

std::optional<Candidate> fastest_of_what_is_built(const PlanTask& task, int64_t micro_batch, Shortage& shortage, double& bound) {
  const RingAttempt least(with_least_engines(task, may_leave_empty(task)), micro_batch);
  const RingSolution possible = least.solver.solve(Effort::kQuick);
  if (!possible.feasible && least.solver.rules_out(kLongestPeriod)) {
    shortage = possible.shortage;
    return std::nullopt;
  }
  shortage.kind = Shortage::Kind::kNotDecided;
  if (!possible.feasible || task.models.size() > kLongRing) return std::nullopt;
  const double begin = bound = least.solver.longest_ruled_out(possible.lower_bound);
  for (const bool some_idle : {false, true}) {
    if (some_idle && (task.options.allow_empty || !may_leave_empty(task))) break;
    PlanTask searched = task;
    searched.options.allow_empty = task.options.allow_empty || some_idle;
    LooksAsBuilt looks(task, searched, micro_batch, begin, kLongestPeriod, nullptr);
    const auto finds = [&](double by) { return looks.look(begin * (1 + std::max(by, kCloseEnough))); };
    if (std::ranges::none_of(kSlower, finds)) continue;
    if (looks.high() > bound * (1 + kWorthLooking)) {
      bound = std::max(bound, longest_ruled_out_as_built(task, micro_batch, looks.high(), bound));
      looks.raise_bound(bound);
      looks.bisect();
    }
    std::optional<Candidate> fastest = looks.fastest();
    set_bound(bound, *fastest);
    return fastest;
  }
  return std::nullopt;
}

// Of what is no faster than a plan whose boards have not the blocks for it.
std::optional<Candidate> fastest_that_packs(const PlanTask& task, const RingAttempt& attempt, double bound, double seconds) {
  LooksAsBuilt looks(task, attempt.task, attempt.solver.micro_batch(), bound, kLongestPeriod, nullptr);
  const auto finds = [&](double by) { return looks.look(seconds * (1 + std::max(by, kCloseEnough))); };
  if (std::ranges::none_of(kSlower, finds)) return std::nullopt;
  looks.bisect();
  return looks.fastest();
}

std::optional<Candidate> fastest_of(const PlanTask& task, const std::shared_ptr<const RingAttempt>& attempt, double longest) {
  double bound = attempt->solution.lower_bound;
  const double promised = attempt->solution.period;
  if (task.options.accounting != Accounting::kFull) return candidate_of(task, attempt, bound);
  const auto better_bound = [&](double known) {
    return longest_ruled_out_as_built(attempt->task, attempt->solver.micro_batch(), known, bound);
  };
  if (!streams_rows(task)) {
    Candidate mixed = candidate_of(task, attempt, bound);
    const double seconds = mixed.summary.seconds_per_image;
    if (!has_two_kinds(task) || task.models.size() > kLongRing) return mixed;
    const bool packs = !task.finds_blocks || packs_blocks(task, mixed) || task.finds_blocks(mixed.plan, *task.graph, /*thoroughly=*/false);
    if (packs && seconds <= bound * (1 + kWorthLooking)) return mixed;
    std::optional<Candidate> built =
        packs ? fastest_as_built(task, attempt->task, attempt->solver.micro_batch(), seconds, bound, better_bound)
              : fastest_that_packs(task, *attempt, bound, seconds);
    if (built) mixed = std::move(*built);
    set_bound(bound, mixed);
    return mixed;
  }
  const bool enlarges = looks_at_built(*attempt);
  std::shared_ptr<BegunBound> begun_bound = attempt->begun;
  if (enlarges && (!begun_bound || begun_bound->period != nearly(bound) || !begun_bound->is_ruled_out.valid()))
    begun_bound = std::make_shared<BegunBound>(with_least_built(attempt->task), attempt->solver.micro_batch(), nearly(bound));
  Candidate found = candidate_of(task, attempt, bound);
  std::optional<Candidate> fastest;
  bool packs = false, asked = false;
  const auto consider = [&](Candidate candidate, bool thoroughly = false) {
    if (!fits_devices(candidate)) return;
    const bool faster = !fastest || candidate.summary.seconds_per_image < fastest->summary.seconds_per_image;
    if (packs && !faster) return;
    const auto finds_blocks = [&] {
      return task.finds_blocks &&
             task.finds_blocks(candidate.plan, *task.graph, !std::exchange(asked, true) || thoroughly);  // the first one matters most
    };
    const bool also_packs = packs_blocks(task, candidate) || finds_blocks();
    if (!(packs == also_packs ? faster : also_packs)) return;
    fastest = std::move(candidate);
    packs = also_packs;
  };
  const auto slower = [&] { return fastest ? fastest->summary.seconds_per_image / promised - 1 : std::numeric_limits<double>::infinity(); };
  // With weights beside their engines only where there is no time for them elsewhere.
  const auto consider_roomy = [&](RingSolution solution, bool thoroughly) {
    solution.least_room = true;
    consider(candidate_of(attempt->task, attempt, solution, bound), thoroughly);
  };
  consider(std::move(found));
  if (fastest && !packs) consider_roomy(attempt->solution, false);
  std::vector<std::shared_ptr<const RingAttempt>> searches, counting;
  const bool two_kinds = has_two_kinds(task);
  // Of two kinds of blocks those that count what is built say more of what fits, and may miss what another finds.
  const auto consider_counting = [&](double by) {
    if (counting.empty())
      for (const double part : kPartsOfMemory)
        for (const bool larger : {false, true}) counting.push_back(as_built(attempt->task, attempt->solver.micro_batch(), part, larger));
    for (size_t b = 0; b < (by > kLittleSlower ? 2 : counting.size()) && !packs; ++b) {
      const RingSolution solution = counting[b]->solver.solve_within(promised * (1 + by));
      if (solution.feasible) consider(candidate_of(counting.front()->task, counting[b], solution, bound));
    }
  };
  const auto consider_reserved = [&](double by) {
    const bool thoroughly = by > kLittleSlower;
    const RingSolution solution = attempt->solver.solve_within(promised * (1 + by));
    if (solution.feasible) consider(candidate_of(attempt->task, attempt, solution, bound));
    if (solution.feasible && (!packs || thoroughly)) consider_roomy(solution, thoroughly);
  };
  double before = 0;
  for (const double by : kSlower) {
    if (packs && (enlarges || slower() <= std::max(kWorthCounting, by))) break;
    if (fastest && task.models.size() > kLongRing) break;
    if (fastest && by > 0 && by < slower() / kLeastPart) continue;
    if (two_kinds && !packs) {
      if (by > 0 && promised * (1 + by) >= longest) break;
      consider_counting(by);
      if (!packs && by > 0) consider_reserved(by);
      for (double low = before, high = by; packs && by > kLittleSlower && high - low > (by - before) / kPartsBetween;) {
        const double known = slower(), middle = low + (high - low) / 2;
        consider_reserved(middle);
        (slower() < known ? high : low) = middle;
      }
      before = by;
      continue;
    }
    if (by > kMostSlower) break;
    if (searches.empty()) {
      searches.push_back(attempt);
      for (const StreamedWords words : {StreamedWords::kReserved, StreamedWords::kOfEngine, StreamedWords::kBuilt})
        searches.push_back(with_words(attempt->task, attempt->solver.micro_batch(), words));
    }
    for (const std::shared_ptr<const RingAttempt>& search : searches) {
      const RingSolution solution = search->solver.solve_within(promised * (1 + by));
      if (solution.feasible) consider(candidate_of(search->task, search, solution, bound));
    }
  }
  if (!packs) return std::nullopt;
  if (two_kinds && !enlarges && task.models.size() <= kLongRing) {
    const RingAttempt least(with_least_built(attempt->task), attempt->solver.micro_batch());
    if (!least.solver.rules_out(nearly(bound))) bound = least.solver.longest_ruled_out(nearly(bound));
    const double seconds = fastest->summary.seconds_per_image;
    if (seconds > bound * (1 + kWorthLooking))
      if (std::optional<Candidate> built =
              fastest_as_built(task, attempt->task, attempt->solver.micro_batch(), seconds, bound, better_bound))
        fastest = std::move(*built);
    set_bound(bound, *fastest);
  }
  if (enlarges) {
    // Mostly the bound stands.
    std::optional<BegunLook> begun;
    if (fastest->summary.seconds_per_image > bound * (1 + kWorthLooking))
      begun.emplace(attempt->task, attempt->solver.micro_batch(), bound * (1 + kCloseEnough));
    const RingSolver& least = begun_bound->least.solver;
    const bool stands = begun_bound->is_ruled_out.get();
    if (!stands) bound = least.longest_ruled_out(nearly(bound));
    const auto longer = [&](double known) { return least.longest_ruled_out(known, bound); };
    const double seconds = fastest->summary.seconds_per_image;
    if (seconds > bound * (1 + kWorthLooking))
      if (std::optional<Candidate> built =
              fastest_as_built(task, attempt->task, attempt->solver.micro_batch(), seconds, bound,
                               stands ? std::function<double(double)>(longer) : nullptr, begun ? &*begun : nullptr))
        fastest = std::move(*built);
    set_bound(bound, *fastest);
  }
  return fastest;
}

}  // namespace millrace
