// Internal to deploy/command: what a training step of FARNN's machines takes in virtual time, where paper_machine.h has formulas.
//
//   const std::vector<FarnnRow> simulated = farnn_rows(simulated_farnn_times());
//
// Of the plan of the pair (core/plan/pair_plan.h), with the formulas' times of a layer's parts on its engines and links as fast as the
// loads, which node/simulate runs event by event:
//   overlapped    as FARNN takes it (PairPace): 16 chunks in time, fetched two at a time; a single memory of weights; a load's set-up
//   no overlap    one thing after the other, sequences whole, and what crosses between them (core/plan/pair_modes.h)
//   all on board  the products with the inputs there, whose weights are loaded as well, and 16 chunks
// In the last two a load with its set-up is part of the F or E that waits for it. An update is part of its layer's gradients. Directions
// are layers one behind the other, as in the formulas. Equal questions are simulated once.
#pragma once

#include <string_view>

#include "fpga/pe_chain/paper_rows.h"

namespace millrace {

FarnnTimes simulated_farnn_times();

// Why a row ("no_overlap") or the points of a figure ("fig7") differ from the formulas' by more than a hundredth.
std::string_view farnn_difference(std::string_view what);

}  // namespace millrace
