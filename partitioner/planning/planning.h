// The question every planner answers, and the shape of the answer.
//
//   PlanTask task{.graph = &graph, .cluster = cluster, .models = models, .options = {.mini_batch = 128}};
//   Outcome outcome = make_plan(task);                    // partitioner/choice/planner.h: by options.strategy
//   if (!outcome.feasible) report(outcome.reason);
//
// A planner is a pure function: the same task gives the same outcome. Nothing here owns the graph or the cost models;
// they must outlive the task.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/device/cost_model.h"
#include "core/documents/job.h"
#include "core/graph/graph.h"
#include "core/plan/pair_modes.h"
#include "core/plan/words_outside.h"
#include "partitioner/planning/summary.h"

namespace millrace {

enum class Strategy { kHybrid, kLayer, kModel, kData, kKind };
std::string_view name_of(Strategy strategy);
Strategy strategy_from(std::string_view name);  // fails with kUsage

// Parameter balancing: storing weights on devices upstream of the one that uses them.
enum class Balance {
  kAuto,    // when some device's memory would be fuller than balance_target
  kAlways,  // always the smallest peak
  kNever,
};

// What of a ring strategy kind divides: where that is faster; every recurrent layer; what keeps every board busy.
enum class Division { kAuto, kAll, kBoards };
Division division_from(std::string_view name);  // "auto", "all", "boards"; fails with kUsage

struct PlanOptions {
  Strategy strategy = Strategy::kHybrid;
  Alignment alignment = Alignment::kFpdeep;
  int64_t mini_batch = 128;
  // Parts that sequences are taken in (core/plan/time_chunking.h); 0: as many as make a mini-batch faster, chosen with full accounting.
  int64_t time_chunks = 1;
  int64_t micro_batch = 0;  // 0: 1 where every device has engines of its own, else chosen for throughput
  OptimizerSettings optimizer;
  Arithmetic arithmetic;
  // Full: weights off chip cost what their memory takes, and a plan's pace is that of whole mini-batches, updates included, which
  // PlanTask::mini_batch_time says.
  Accounting accounting = Accounting::kFpdeep;
  // With full accounting: a device that keeps some layer's weights off chip keeps all of its weights there, at the speed of that memory.
  // FPDeep's accounting always has it so. Set by the planner where nothing fits otherwise.
  bool all_off_chip = false;
  // With full accounting: layers whose weights lie on chip though a device would keep them off chip. Set by the planner where they fit.
  std::set<std::string> on_chip;
  // Likewise layers whose weights a board may stream from its own memory: it keeps as many beside their engines as it has room for, none of
  // them with `all_off_chip`. Set by the planner.
  std::set<std::string> off_chip;
  // Likewise: what waits before each layer for its errors lies in boards' own memories, which takes time of those and leaves the blocks to
  // weights. Set by the planner.
  bool act_rams_outside = false;
  // How a search counts their words, and for which engines. Set by the planner.
  StreamedWords streamed_words = StreamedWords::kFull;
  // A search for what none of these micro-batches can do, as if each shard had the best of all; empty: the one that it is asked for. Set by
  // the planner, for boards that stream rows.
  std::vector<int64_t> micro_batches;
  // By device, seconds a sample of its own memory that a search leaves to samples that wait there for their errors; empty: none. Set by the
  // planner.
  std::vector<double> waiting_seconds;
  // That wait for their errors before every layer, beside those of the formulas, where all devices stream. Set by the planner.
  double more_samples = 0;
  Balance balance = Balance::kAuto;
  double balance_target = 0.8;
  bool recompute = false;         // what recurrent layers keep is made again before E: core/plan/recomputation.h
  bool allow_empty = false;       // devices may be left without work even where that is no faster
  bool fc_barrier = false;        // a fully connected layer needs the whole map before any error exists
  bool fpdeep_lifetimes = false;  // activations held as long as FPDeep's formulas say: see hybrid/lifetimes.h
  // Strategy kind: no recurrent layer is whole on a device, and: every board makes steps, whatever would be fastest.
  bool divide_all = false;
  bool every_board = false;
  // Strategy kind with full accounting: as what the ring's pair is compared. Another than overlap takes a mini-batch at once, and its plan
  // is not to be run.
  PairMode pair_mode = PairMode::kOverlap;
  std::map<std::string, int64_t> pins;  // layer -> device index
  std::map<int64_t, FixedCut> cuts;     // link -> where it cuts
};
void divide(PlanOptions& options, Division division);

// What a plan takes for a mini-batch, from one update to the next.
struct MiniBatchTime {
  double seconds = 0;
  std::string origin = "simulated";  // "modelled" by the passage of a few samples; "fitted"
};

struct PlanTask {
  const Graph* graph = nullptr;
  Cluster cluster;
  std::vector<const CostModel*> models;  // one per device of the cluster
  PlanOptions options;
  // Links with devices on them that are left without work: a layer's devices are consecutive, so strategy kind cuts none there.
  std::set<int64_t> bridges = {};
  // For full accounting. Pure; fails with kStandstill on a plan that comes to one, which is then not
  // taken; any other error ends the planning.
  std::function<MiniBatchTime(const Plan&, const Graph&)> mini_batch_time = {};
  // The same of one of several like rings, which agree on every update; for whoever chooses how many.
  std::function<MiniBatchTime(const Plan&, const Graph&, int64_t replicas)> replicated_mini_batch_time = {};
  // Likewise: what waits in boards' own memories for its errors when the plan is built, which takes of their bandwidth. Pure; nothing: none
  // of it is counted.
  std::function<std::vector<WaitingWords>(const Plan&, const Graph&)> waiting_words = {};
  // Of a plan that both will probably be asked about, and of links that stay as they are: may begin to find the answers beside whoever goes
  // on. Nothing: they are found when asked for. Changes no answer.
  std::function<void(const Plan&, const Graph&)> begin_mini_batch_time = {};
  // Told, before a plan's time is waited for, of the samples a second that it takes between updates: what does not depend on its time may
  // be found out meanwhile. Changes no answer.
  std::function<void(double samples_per_second)> while_timed = {};
  // Whether every board's memories find their blocks when the plan is built; asked where that is in doubt.
  // `thoroughly`: whatever time that takes; else some that do may be missed. Pure; nothing: they do not.
  std::function<bool(const Plan&, const Graph&, bool thoroughly)> finds_blocks = {};
  // Samples a second that a plan has to exceed to be of use: no more is found out about slower ones, and none of them is an answer.
  double wanted = 0;
  // Whether a reason for no plan is to say how many devices would do.
  bool counts_enough = true;
  // Told now and then how much of the search is done, as far as that is known.
  std::function<void(double share)> progress = {};
};

// What training takes a sample if every multiplier of the ring is busy; 0 where some device does not say how many it has.
double busy_seconds(const PlanTask& task);

// Why there is no plan.
struct Reason {
  std::string text;      // a sentence for people
  int64_t device = -1;   // which one cannot take its part; -1: not one alone
  std::string resource;  // "bram_bits", "memory_bytes", "seconds", ...
  double missing = 0;    // in the unit of the resource
  // The smallest number of the same devices that would do; 0: not known, or no number would.
  int64_t smallest_count = 0;
};

// What was left open, and what of it was taken.
struct Choice {
  std::string what;               // "micro-batch"
  std::string chosen;             // "8"
  std::string next_best;          // "16"; empty: not asked, or there is no other
  double samples_per_second = 0;  // with that
};

struct Outcome {
  bool feasible = false;
  Reason reason;
  // Absent for strategies that no ring of segments can express (model, data).
  std::optional<Plan> plan;
  PlanSummary summary;  // meaningful when feasible
  // Rings side by side. The plan is of one of them, and so is the summary but for its rates, which are those of all.
  int64_t replicas = 1;
  std::vector<Choice> choices;  // see choice/choose.h
  double solve_seconds = 0;
};

}  // namespace millrace
