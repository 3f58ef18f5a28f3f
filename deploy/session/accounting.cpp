#include "deploy/session/accounting.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/beside.h"
#include "core/base/error.h"
#include "deploy/session/ring_check.h"
#include "fpga/conv_ce/generator/device_check.h"
#include "fpga/conv_ce/generator/ring_waiting.h"
#include "node/simulate/mini_batch_pace.h"

namespace millrace {
namespace {

constexpr auto kReplicaBits = static_cast<int64_t>(1e9 * kReplicaGbps);
constexpr int64_t kReplicaPicoseconds = 5'000'000;  // between replicas, per message

// A planner asks of the same plan again and again: for layers that it might have put elsewhere, for rings with devices left out, and for
// periods that are little longer.
template <typename Answer>
class KnownAnswers {
 public:
  // `question`: what else an answer depends on, such as the number of replicas.
  std::optional<Answer> find(const Plan& plan, int64_t question) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [known, asked, answer] : known_)
      if (asked == question && alike(known, plan)) return answer;
    return std::nullopt;
  }
  void add(const Plan& plan, int64_t question, const Answer& answer) {
    const std::scoped_lock lock(mutex_);
    if (known_.size() == kMost) known_.pop_front();
    known_.push_back({plan, question, answer});
  }

 private:
  static constexpr size_t kMost = 64;
  struct Known {
    Plan plan;
    int64_t question = 1;
    Answer answer;
  };
  // In all that a simulation reads, and a generator.
  static bool alike(const Plan& a, const Plan& b) {
    return a.micro_batch == b.micro_batch && a.mini_batch == b.mini_batch && a.alignment == b.alignment && a.accounting == b.accounting &&
           a.purpose == b.purpose && a.time_chunks == b.time_chunks && a.model_digest == b.model_digest && a.arithmetic == b.arithmetic &&
           a.optimizer == b.optimizer && a.windows == b.windows && a.cluster == b.cluster && a.links == b.links && a.shards == b.shards &&
           a.groups == b.groups && a.homes == b.homes && a.flows == b.flows;
  }

  std::mutex mutex_;
  std::deque<Known> known_;
};

// Whether hardware is generated for boards of the plan, of a ring that is timed while it is planned.
bool is_built(const Plan& plan) {
  const auto has_engine = [](const Shard& shard) {
    return std::ranges::any_of(shard.phases, [](const PhaseEngine& phase) { return phase.engine == "conv_ce"; });
  };
  return plan.accounting == Accounting::kFull && plan.purpose == Purpose::kTraining && plan.arithmetic.wire == ElementType::kFixed16 &&
         plan.devices() <= kMostTimed && std::ranges::any_of(plan.shards, has_engine);
}

// Of what there is no hardware for, which whoever checks the plan names. Any other error is one of plans that contradict themselves or the
// generator, which nobody should take for plans that do not fit.
void pass_on_unless_unavailable(const Error& error) {
  if (error.code() != ErrorCode::kUnavailable) throw error.within("asking what hardware a plan would be of");
}

std::vector<WaitingWords> words_of_built(const Plan& plan, const Graph& graph, KnownRooms* rooms) {
  try {
    return waiting_words(plan, graph, rooms);
  } catch (const Error& error) {
    pass_on_unless_unavailable(error);
    return {};
  }
}

// What a plan takes, and what of it waits outside. A plan that will probably be asked about may be begun: it is then looked at beside
// whoever goes on, and whoever asks about it meanwhile waits for that. Its end waits for what it has begun.
class PlanTimes {
 public:
  explicit PlanTimes(std::shared_ptr<KnownRooms> rooms) : rooms_(std::move(rooms)) {}

  MiniBatchTime mini_batch_time(const Plan& plan, const Graph& graph, int64_t replicas) {
    if (const std::optional<std::shared_future<void>> begun = begun_times_.find(plan, replicas)) begun->wait();
    return time_now(plan, graph, replicas);
  }

  std::vector<WaitingWords> waiting_words(const Plan& plan, const Graph& graph) {
    if (!is_built(plan)) return {};
    if (const std::optional<std::shared_future<void>> begun = begun_words_.find(plan, 1)) {
      begun->wait();
    } else if (std::optional<std::vector<WaitingWords>> known = words_.find(plan, 1)) {
      return *std::move(known);
    }
    std::vector<WaitingWords> words = words_now(plan, graph);
    begin_timing_ring(plan, graph);  // which who checks the plan asks for, in the end
    return words;
  }

  // On a machine that does one thing at a time nothing is; nor while it is busy with another plan.
  void begin(const Plan& plan, const Graph& graph) {
    const auto is_busy = [&] { return latest_.valid() && latest_.wait_for(std::chrono::seconds(0)) != std::future_status::ready; };
    const std::scoped_lock lock(mutex_);
    if (!does_several_at_once() || is_busy() || !is_built(plan) || begun_words_.find(plan, 1) || words_.find(plan, 1)) return;
    const auto words = std::make_shared<Step>(), time = std::make_shared<Step>();
    begun_words_.add(plan, 1, words->end());
    latest_ = beside([this, words, time, timed = plan, &graph]() mutable {
      const Step::Ends ends{*words, *time};
      // Whoever asks finds out again what is wrong.
      try {
        add_words_outside(timed, graph, words_now(timed, graph));
        begun_times_.add(timed, 1, time->end());
        words->set_end();
        time_now(timed, graph, 1);
      } catch (const Error&) {
      }
    });
  }

 private:
  // Of what goes on beside those who wait for it.
  class Step {
   public:
    std::shared_future<void> end() const { return end_; }
    void set_end() {
      if (!std::exchange(has_ended_, true)) promise_.set_value();
    }
    // However it ends.
    struct Ends {
      Step &words, &time;
      ~Ends() {
        words.set_end();
        time.set_end();
      }
    };

   private:
    std::promise<void> promise_;
    std::shared_future<void> end_ = promise_.get_future().share();
    bool has_ended_ = false;
  };

  MiniBatchTime time_now(const Plan& plan, const Graph& graph, int64_t replicas) {
    if (const std::optional<MiniBatchTime> time = times_.find(plan, replicas)) return *time;
    Replicas rings;
    rings.count = replicas;
    if (replicas > 1) rings.outer = {kReplicaBits, kReplicaPicoseconds};
    const MiniBatchPace pace = mini_batch_pace(plan, graph, rings);
    const MiniBatchTime time{pace.seconds, std::string(pace.origin)};
    times_.add(plan, replicas, time);
    return time;
  }

  std::vector<WaitingWords> words_now(const Plan& plan, const Graph& graph) {
    if (std::optional<std::vector<WaitingWords>> words = words_.find(plan, 1)) return *std::move(words);
    std::vector<WaitingWords> words = words_of_built(plan, graph, rooms_.get());
    words_.add(plan, 1, words);
    return words;
  }

  void begin_timing_ring(const Plan& plan, const Graph& graph) {
    if (!rooms_) return;
    try {
      begin_waiting(plan, graph, *rooms_);
    } catch (const Error& error) {
      pass_on_unless_unavailable(error);
    }
  }

  std::shared_ptr<KnownRooms> rooms_;
  KnownAnswers<MiniBatchTime> times_;
  KnownAnswers<std::vector<WaitingWords>> words_;
  KnownAnswers<std::shared_future<void>> begun_words_, begun_times_;
  std::mutex mutex_;
  std::shared_future<void> latest_;  // last, so that all it needs is there until it ends
};

// With no more room than there must be, or with what waits in the memory outside, which leaves blocks and is found by timing the ring.
bool all_fit(const Plan& plan, const Graph& graph, bool thoroughly) {
  std::vector<int64_t> boards;
  for (const Shard& shard : plan.shards)
    if (!kind_that_is_no_fpga(plan, shard.device) && (boards.empty() || boards.back() != shard.device)) boards.push_back(shard.device);
  try {
    return all_devices_fit(plan, graph, boards, CheckedRooms::kLeast) || (thoroughly && all_devices_fit(plan, graph, boards));
  } catch (const Error& error) {
    pass_on_unless_unavailable(error);
    return false;
  }
}

}  // namespace

Accounting accounting_of(const std::string& flag, Accounting usual) { return flag.empty() ? usual : accounting_from(flag); }

void account(PlanTask& task, Accounting accounting, const std::shared_ptr<KnownRooms>& rooms) {
  task.options.accounting = accounting;
  task.mini_batch_time = {};
  task.replicated_mini_batch_time = {};
  task.waiting_words = {};
  task.begin_mini_batch_time = {};
  task.finds_blocks = {};
  if (accounting == Accounting::kFpdeep) return;
  const auto times = std::make_shared<PlanTimes>(rooms);
  task.replicated_mini_batch_time = [times](const Plan& plan, const Graph& graph, int64_t replicas) {
    return times->mini_batch_time(plan, graph, replicas);
  };
  task.mini_batch_time = [time = task.replicated_mini_batch_time](const Plan& plan, const Graph& graph) { return time(plan, graph, 1); };
  const auto fitting = std::make_shared<KnownAnswers<bool>>();
  task.finds_blocks = [fitting](const Plan& plan, const Graph& graph, bool thoroughly) {
    if (!is_built(plan)) return false;
    if (const std::optional<bool> fits = fitting->find(plan, thoroughly ? 1 : 0)) return *fits;
    const bool fits = all_fit(plan, graph, thoroughly);
    fitting->add(plan, thoroughly ? 1 : 0, fits);
    return fits;
  };
  task.waiting_words = [times](const Plan& plan, const Graph& graph) { return times->waiting_words(plan, graph); };
  task.begin_mini_batch_time = [times](const Plan& plan, const Graph& graph) { times->begin(plan, graph); };
}

}  // namespace millrace
