#!/usr/bin/env python3
"""Breaks recurrent layers divided by kind on purpose, one place at a time, and sees whether a test notices.

    tests/fpga/pe_chain/mutations.py --build build/release [--only seats] [--out tests/benchmarks/results/kind_mutations.json]

Every mutation is a row: what is broken, the source, its text and what stands there instead, the test program and which of its tests
(tests/mutations.py says how they run).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from mutations import run_mutations  # noqa: E402

FIXED = "fpga/pe_chain/arithmetic/fixed_steps.cpp"
MUTATIONS = [
    ("U is not transposed on the way back", FIXED, "fast_item(layer.hidden_weight, (i * gates + gate) * features + feature)",
     "fast_item(layer.hidden_weight, (feature * gates + gate) * features + i % features)", "test_pe_chain_arithmetic", "FixedSteps*"),
    ("a projection is not transposed on the way back", FIXED, "fast_item(layer.projection_weight, i * hidden + unit)",
     "fast_item(layer.projection_weight, unit * features + i)", "test_pe_chain_arithmetic", "FixedSteps*"),
    ("a projection's inputs in runs, a unit a run", "fpga/pe_chain/arithmetic/dealt_inputs.h", "begin(row, input % units) + input / units",
     "begin(row, input / each()) + input % each()", "test_pe_chain_arithmetic", "RealSteps*"),
    ("half the passes", "core/plan/schedule.cpp", "  const int64_t fewer = parameter_passes(steady);\n  ++steady.mini_batches;\n"
     "  return parameter_passes(steady) - fewer;", "  const int64_t fewer = parameter_passes(steady);\n  ++steady.mini_batches;\n"
     "  return (parameter_passes(steady) - fewer) / (spec.loads_every_pass ? 2 : 1);", "test_dataflow", "DividedByKind*"),
    ("a gru's two errors of the candidate exchanged", "fpga/pe_chain/arithmetic/unit_back.cpp",
     "      errors.gates[2] = static_cast<int16_t>(dn);\n      errors.candidate = element(dn * r);",
     "      errors.candidate = static_cast<int16_t>(dn);\n      errors.gates[2] = element(dn * r);", "test_pe_chain_arithmetic", "FixedSteps*"),
    ("one entry of the gates' table off by one bit", "fpga/recurrence/arithmetic/gate_function.cpp",
     "made[i] = static_cast<uint16_t>(std::lround(kOne / (1 + std::exp(-z))));",
     "made[i] = static_cast<uint16_t>(std::lround(kOne / (1 + std::exp(-z))) ^ (i == 2222 ? 1 : 0));", "test_fpga_recurrence_arithmetic", "*"),
    ("one piece of tanh off by one bit of its slope", "fpga/pe_chain/arithmetic/real_functions.cpp",
     "  static const auto pieces = pieces_of([](double z) { return std::tanh(z); });\n",
     "  static const auto pieces = [] {\n    auto made = pieces_of([](double z) { return std::tanh(z); });\n"
     "    made[3].slope = std::nextafter(made[3].slope, 1.0F);\n    return made;\n  }();\n", "test_pe_chain_arithmetic", "*"),
    ("the simulator ignores seats", "node/simulate/compile.cpp", "    if (folds(plan_.cluster)) {\n", "    if (folds(plan_.cluster) && false) {\n",
     "test_node_simulate", "Seats*"),
    ("the simulator gives each link a cable of its own", "node/simulate/compile.cpp",
     "    const std::vector<int64_t> cables = cables_of(plan_.cluster);\n    for (size_t lane = 0; lane < loads.size(); ++lane)\n",
     "    std::vector<int64_t> cables = cables_of(plan_.cluster);\n    for (size_t i = 0; i < cables.size(); ++i) cables[i] = static_cast<int64_t>(i);\n"
     "    for (size_t lane = 0; lane < loads.size(); ++lane)\n", "test_node_simulate", "Seats*"),
    ("the planner ignores seats", "partitioner/baseline/kind_folded.cpp", "  at.seconds[seat] += seconds;", "  at.seconds[device] += seconds;", "test_baseline",
     "KindParallel.Folded*"),
    ("a load beside the steps before", "fpga/cost/chained_steps.cpp",
     "made.forward_seconds = (steps * row->forward_seconds + forward_load) / batch;",
     "made.forward_seconds = std::max(steps * row->forward_seconds, forward_load) / batch;", "test_fpga_cost", "ChainedSteps*"),
    ("the record one step late", "core/reference/recurrent.cpp", "write(channels.taken, at(keep, d, n, s_.before(d, t)).h, s_.features);",
     "write(channels.taken, now.h, s_.features);", "test_dataflow", "DividedByKind*"),
    ("emulated boards' record one step late", "fpga/emulated/emulated_steps.cpp",
     "              record[channels.at(shape_, d, n, channel + j, step_of(d, valid, i))] = fast_item(from, i * count + j);",
     "              record[channels.at(shape_, d, n, channel + j, step_of(d, valid, (i + 1) % valid))] = fast_item(from, i * count + j);",
     "test_fpga_emulated", "*Steps*"),
    ("boards forget between two chunks of time what the steps behind left", "fpga/emulated/emulated_steps.cpp",
     "      if (begin == 0 || cut(begin)) own.behind = {};", "      own.behind = {};", "test_fpga_emulated", "*Steps*"),
    ("products with the inputs wait for the last chunk of time", "core/plan/time_chunking.cpp",
     "  if (step.direction >= 0) return node.output.height > 1;", "  if (step.direction >= 0) return false;", "test_dataflow", "DividedByKind*"),
    ("a record crosses before its steps are made", "core/plan/time_chunking.cpp", "if (record >= 0 && step.kind == StepKind::kReceive",
     "if (record < -1 && step.kind == StepKind::kReceive", "test_dataflow", "DividedByKind*"),
    ("a board takes another layer between two chunks of time", "node/simulate/sequential_device.cpp", "    turns.keeps_card = chunks_ > 1 && ",
     "    turns.keeps_card = chunks_ > 9999 && ", "test_node_simulate", "PairForms*"),
    ("lanes in another order for divided cells alone", "fpga/pe_chain/arithmetic/chain_sum.h",
     "    add_half(half, shape.inputs, second.data());\n", "    add_half(half, shape.inputs, second.data());\n    std::swap(second[1], second[2]);\n",
     "test_pe_chain_arithmetic", "*"),
    ("a pass spread over the period instead of sent at the link's speed", "node/simulate/parameter_streams.cpp", "    if (at_once) return;\n", "",
     "test_node_simulate", "PairForms*"),
    ("a projection is not transposed for E of boards that share its steps", "node/ring/slice_server.cpp",
     'home.tensor.starts_with("weight_h") &&', 'home.tensor.starts_with("weight_hh") &&', "test_fpga_emulated", "EmulatedSteps.TrainTheSameBitsOnAnyNumberOfBoards"),
    ("a board's columns of a projection are not its own in E", "fpga/pe_chain/arithmetic/fixed_steps.cpp",
     "          const int64_t sum = dealt_product(deal, product, unit, unit - board.begin, projection, dealt_dh);",
     "          const int64_t sum = dealt_product(deal, product, unit - board.begin, unit - board.begin, projection, dealt_dh);",
     "test_pe_chain_arithmetic", "FixedSteps*"),
    ("what is projected crosses one step late", "core/device/unit_steps.cpp",
     "arithmetic_->project(d, projected_[place(sequence, step)], made);",
     "arithmetic_->project(d, projected_[place(sequence, std::max<int64_t>(0, step - 1))], made);", "test_dataflow", "DividedByKind*"),
    ("errors of h cross one step late", "core/device/unit_steps.cpp", "*running_->kept[at], running_->features[at], carried,",
     "*running_->kept[at], running_->features[std::min(at + 1, running_->features.size() - 1)], carried,", "test_dataflow", "DividedByKind*"),
    ("sums of a projection begin with the board's own units", "core/reference/unit_steps.cpp",
     "h += rows[at(f * cell_.hidden + i)] * static_cast<T>(units[at(i)]);",
     "h += rows[at(f * cell_.hidden + (begin_ + i) % cell_.hidden)] * static_cast<T>(units[at((begin_ + i) % cell_.hidden)]);",
     "test_dataflow", "DividedByKind.SharedStepsAreBitwiseTheInterpreters"),
    ("a simulated step waits for the rows of its second product alone", "node/simulate/network.cpp",
     "return item(way.rows, (of.phase - 1) % of.rows_of_step);", "return item(way.rows, of.rows_of_step - 1);", "test_node_simulate",
     "StepsOnBoards*"),
    ("the planner counts one exchange of a projected step", "core/plan/parts.cpp",
     "      if (!errors || recurrent.error_needed)\n", "      if ((!errors || recurrent.error_needed) && !row.of_features)\n",
     "test_node_simulate", "StepsOnBoards*"),
    ("the bound raised by 1%", "partitioner/baseline/kind_parallel.cpp", "    plan.lower_bound_seconds_per_image = bound;\n",
     "    plan.lower_bound_seconds_per_image = 1.01 * bound;\n", "test_baseline", "KindParallel.IsTheBestOfAllCuts"),
]

if __name__ == "__main__":
    sys.exit(run_mutations(__doc__, MUTATIONS))
