// The fastest way to train a stated mini-batch on a ring: what a plan leaves open is chosen together.
//
//   Freedom freedom = usual_freedom(task);               // the given order, everything else chosen
//   freedom.orders = {{"h200x2+u280x8", cluster, models}};
//   ChosenPlan chosen = choose_plan(task, freedom);
//   for (const Choice& choice : chosen.outcome.choices) print(choice.what, choice.chosen);
//
// Chosen are: the order of the devices, among those given; how many rings stand side by side (replicas: of R rings each has an R-th of
// the devices and takes an R-th of the mini-batch, which is global; a plan says of how many it is one: core/plan/rings_side_by_side.h);
// devices that get no work although the ring could use them, because
// its schedule or its links are slower with them; and the micro-batch, unless it is stated. What cannot be faster is ruled out by its
// bound, the rest is planned, and with full accounting simulated. So one device more is no slower: without it, the ring is
// a candidate. Where devices of several kinds would have to stay out at once, one kind at a time is tried, and one alone, which
// may miss the best.
// Of a run of like devices the last ones are left out, as few as are faster, or as many as change nothing between updates.
// With pins or cuts by hand the micro-batch and chunks of time alone are chosen. Rings of more than 200 devices are planned once.
// Chunks of time (options.time_chunks 0) are chosen, together with the micro-batch, where something passes in parts (core/plan/
// time_chunking.h), all devices take turns (with strategy kind boards do), and a mini-batch is faster by 1% at least: where updates drain
// the pipeline. Then larger micro-batches than would keep all devices busy are tried, too. The cuts are those of whole sequences. Pure but
// for solve_seconds. Borrows graph and cost models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/planning/planning.h"

namespace millrace {

struct RingOrder {
  std::string name;  // "h200x2+u280x8"
  Cluster cluster;
  std::vector<const CostModel*> models;
};

struct Freedom {
  bool leave_empty = true;
  std::vector<RingOrder> orders = {};   // besides the task's own
  std::vector<int64_t> replicas = {1};  // counts to choose from, ascending; those that do not divide the ring into like rings drop out
  bool leave_over = false;              // unless devices behind the last of the rings may be left over, without work
  // Says what the next best of every choice would give, which takes as long again for each.
  bool next_best = false;
};

struct ChosenPlan {
  PlanTask task;  // with the order that was chosen, and one ring's devices and mini-batch
  Outcome outcome;
};

ChosenPlan choose_plan(const PlanTask& task, const Freedom& freedom);

// What is chosen where nobody says otherwise. Rings side by side are, where all devices take turns: processors and GPUs have a network
// besides the ring's links. Boards have those links alone, so there somebody has to ask. Accounting that has updates for nothing chooses
// none.
Freedom usual_freedom(const PlanTask& task);

// All orders of a ring's kinds of devices, each kind together, as lists of indices into it; without the ring's own. None where there are
// more than four kinds.
std::vector<std::vector<int64_t>> orders_of_kinds(const Cluster& cluster);

// Makes the rates of one ring those of so many like it.
void count_rings(PlanSummary& summary, int64_t rings);

}  // namespace millrace
