#!/usr/bin/env python3
"""Breaks the solver on purpose, one place at a time, and sees whether a test notices.

    tests/partitioner/hybrid/mutations.py --build build/release [--only homes] [--out tests/benchmarks/results/solver_mutations.json]

Every mutation is a row: what is broken, the source in partitioner/hybrid, its text and what stands there instead; tests/mutations.py says
how they run.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from mutations import run_mutations  # noqa: E402

MUTATIONS = [
    ("bound is the period", "ring_solver.cpp", "best.lower_bound = impossible;", "best.lower_bound = best.period;"),
    ("102% of every memory", "segment_load.cpp", "double capacity = capacities[i].amount;", "double capacity = 1.02 * capacities[i].amount;"),
    ("102% of the parameters' memory", "ring_solver.cpp", "HomeProblem::Device device{.capacity = memory.amount,",
     "HomeProblem::Device device{.capacity = 1.02 * memory.amount,"),
    ("no joint search", "ring_solver.cpp", "  if (!settled()) {\n    JointBisection", "  if (!settled() && best.period < 0) {\n    JointBisection"),
    ("joint search never shortens the period", "joint_bisection.cpp", "    descend(cells, tolerance);\n", ""),
    ("joint search never raises the bound", "joint_bisection.cpp", "    raise(cells, tolerance);\n", ""),
    ("joint search ends with its first plan", "joint_bisection.cpp", "for (const auto& [cells, tolerance] : kLevels) {",
     "for (const auto& [cells, tolerance] : kLevels) {\n      if (cells > 0) break;"),
    ("no exact end of the joint search", "joint_bisection.cpp", "      descend(cells, kExact);\n      raise(cells, kExact);\n", ""),
    # Of the looks before and after the search either makes up for the other, at the cost of time, so they go together.
    ("no look at plans with every parameter at home", "ring_solver.cpp", "const bool prefers_home = task_->options.balance == Balance::kAuto;",
     "const bool prefers_home = task_->options.balance_target < 0;"),
    ("homes ignored", "ring_solver.cpp", "  solution.cuts = std::move(cuts);\n  solution.homes = std::move(*homes);\n",
     "  solution.cuts = std::move(cuts);\n  solution.homes = local_homes(home_problem(solution.cuts, periods.compute, solution.least_room));\n"),
    ("larger engines are never looked at", "stretch_load.cpp", "  for (const bool larger : {false, true}) {", "  for (const bool larger : {false}) {"),
    ("larger engines for no multipliers", "stretch_load.cpp",
     "    for (size_t i = 0; i < capacities_.size(); ++i) sum_.amounts[i] += to.amounts[i] - from.amounts[i];\n",
     "    sum_.amounts[memory_] += to.amounts[memory_] - from.amounts[memory_];\n"),
    ("a period between two leads as far as the longer", "segment_load.cpp",
     "    between.shorter = std::prev(longer)->second;",
     "    between.shorter = longer != found->second.end() ? longer->second : std::prev(longer)->second;"),
    ("a period leads no further than a shorter one", "segment_load.cpp", "units_to(known.longer.value_or(last), left) + 1;",
     "units_to(known.shorter.value_or(last), left) + 1;"),
    ("of several ways a layer frees the room of its first", "stretch_load.cpp",
     "for (const Other* other : layer.others) most = std::max(most,",
     "for (const Other* other : layer.others) most = most > 0 ? most : std::max(most,"),
    ("ways overrun a board that would not by themselves", "stretch_load.cpp", "before_.amounts[i] + (to.amounts[i] - from.amounts[i]) >",
     "before_.amounts[i] + 2 * (to.amounts[i] - from.amounts[i]) >"),
    ("what cannot be shown impossible is called so", "joint_search.cpp",
     "    if (nothing_left(least_excess())) answer.verdict = JointAnswer::Verdict::kUndecided;", "    static_cast<void>(nothing_left);"),
    ("choices of elements of several sizes are not gone through", "joint_bisection.cpp",
     "  if (!keeps()) {\n", "  if (!keeps() && periods.compute < 0) {\n"),
    ("of several sizes one choice alone", "exhaustive_search.cpp", "after < walk.sizes.size() ? 0 : most", "most"),
    ("layers hold the rows of their lags alone", "lifetimes.cpp", "  if (!rules.least_rows) return lifetimes;", "  return lifetimes;"),
    ("rows that a stride steps over wait for nobody", "lifetimes.cpp", "released = released_rows(rows, group.head, rows.errors_descend());",
     "released = used;"),
    ("homes cost no traffic", "joint_search.cpp", "const double moved = static_cast<double>(elements) * bits_per_element;",
     "const double moved = 0 * static_cast<double>(elements) * bits_per_element;"),
]

CLOSE = ("test_deploy_session", "BuiltAsPlanned.CloseToWhatIsRuledOut")
BUILT = [
    ("as built nothing is ruled out below the plan", "partitioner/hybrid/ring_attempt.cpp", "bound = std::max(bound, better_bound(looks.high()));",
     "bound = std::max(bound, looks.high());", *CLOSE),
    ("plans as built are looked for near the bound alone", "partitioner/hybrid/ring_attempt.cpp",
     "    looks.raise_bound(bound);\n  }\n  looks.bisect();\n", "    looks.raise_bound(bound);\n  }\n", *CLOSE),
    ("one end of a device is kept", "partitioner/hybrid/cut_search.cpp", "{1, false}, {4, false}, {16, true}", "{1, false}", *CLOSE),
    ("ends of one channel alone are kept", "partitioner/hybrid/cut_search.cpp", "{4, false}, {16, true}", "{4, false}", *CLOSE),
    ("as built the first unit that is too much ends a stretch", "partitioner/hybrid/segment_load.cpp", "kMostTried = 64;", "kMostTried = 0;",
     *CLOSE),
    ("larger parts of a layer count for nothing", "fpga/cost/least_engines.cpp",
     ".engines = of_more.engines};", ".engines = {}};",
     "test_fpga_cost", "LeastBuiltAre.*"),
    ("a larger part brings no Act-RAM of its own", "fpga/cost/least_engines.cpp", "memory.act_ram_times = std::max(1.0,",
     "memory.act_ram_times = std::min(1.0,", "test_fpga_cost", "GeneratedEngines.OfLargerPartsHoldMore"),
    ("engines of a longer period keep up with every shorter one", "fpga/cost/least_engines.cpp",
     "found.first = std::max(found.first, known.cycles);", "found.first = std::max<int64_t>(found.first, 0 * known.cycles);",
     "test_fpga_cost", "GeneratedEngines.AnswersDoNotDependOnWhatWasAskedBefore"),
    ("a part without an engine that keeps up has the reserved one", "fpga/cost/fpga_cost_model.cpp",
     "least = built_->least_built(sized.engine, weights, board_.urams > 0)) {",
     "least = built_->least_built(sized.engine, weights, board_.urams > 0); least && !least->empty()) {",
     *CLOSE),
    ("engines of two kinds of blocks save in one of them alone", "partitioner/hybrid/stretch_load.cpp",
     "if (i != memory_ && model_->holds_parameters(i))", "if (i == memory_)", "test_hybrid", "StretchLoad.*"),
    ("larger engines save no block RAM", "fpga/cost/fpga_cost_model.cpp", "resource >= kExchanged;", "resource > kExchanged;", *CLOSE),
    ("larger parts take nothing of either kind", "fpga/cost/least_of_any.cpp", "if (!of_more.empty()) lower(least, of_more.back());",
     "", "test_fpga_cost", "LeastBuiltAre.*"),
    ("what does not pack is not looked at with less memory", "partitioner/hybrid/ring_attempt.cpp", "if (part < 1) built_.push_back(",
     "if (part < 0) built_.push_back(", *CLOSE),
    ("what steps leave open stays open", "partitioner/hybrid/stretch_load.cpp", "if (!best_ && ran_out()) {", "if (!best_ && ran_out() && wish_ != Wish::kAny) {",
     *CLOSE),
    ("samples that wait outside leave all time to weights", "partitioner/hybrid/segment_load.h", "return period - seconds_waiting(device);",
     "return period;", "test_study", "Accounting.SamplesThatWaitOutsideTakeTimeOfTheMemory"),
]

if __name__ == "__main__":
    sys.exit(run_mutations(__doc__, [(name, f"partitioner/hybrid/{file}", old, new, "test_hybrid", "*") for name, file, old, new in MUTATIONS] + BUILT))
