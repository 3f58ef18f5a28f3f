// The recurrent part of a layer on chained elements, 16 bits: what a board computes of it, forward and back, and several boards in a row.
//
//   FixedSteps steps(layer, /*boards=*/{{0, 512}, {512, 1024}}, {.elements = 256}, /*error_fraction=*/12);
//   steps.forward(sums, run, state, kept, counters);      // h of all units; what EB needs goes to `kept`
//   steps.back(errors, run, kept, state_back, result, counters);
//
// W x comes from elsewhere, as elements with the fraction bits of a sum; biases, U h, gates, states and the projection are made here
// (fpga/recurrence/arithmetic says how; unit_back.h the way back). A board owns units: of U it keeps rows of its units forward and
// columns of its units back, takes the others' rows of h, and of errors, and gives its own; every sum lies on one board, its products
// on one element or two, so that numbers depend neither on the boards nor on the elements. dh is rounded once, from
//   round((dy + carried) 2^s + sum over gates and units of U d),  s the fraction bits of U.
// A projection's inputs are dealt to the engine's units. Of a projected layer a board owns as large a part of the features as of the units,
// from the same place on: rows of the projection of its features forward, columns of its units back, and columns of U of its features.
// There a step has two parts, with what the others made between them: forward units and then features, back features and then units.
// Sequences may end (RecurrentRun::lengths): behind its end a sequence's output, errors and record are zero, and states and errors pass by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fpga/pe_chain/arithmetic/unit_back.h"
#include "fpga/recurrence/arithmetic/fixed_recurrent.h"

namespace millrace {

struct UnitRange {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

// What of a step a board makes at once.
enum class StepPart {
  kBoth,
  kUnits,    // of a projected layer on several boards: gates and states, or from errors of all features to those of its units' gates
  kFeatures  // there: h of its features from what all units gave out, or errors of these
};

struct ChainBuild {
  int64_t elements = 256;  // of a unit
  int64_t most_parts = 2;
};

// Of a run: what the steps forward leave for those back, [stream][step][unit].
struct FixedKept {
  std::vector<UnitRecord> records;
  std::vector<int16_t> units;  // of a projected layer: what is projected, for the projection's gradient
};

// The features of a board with those units; `divides`: they are whole.
UnitRange features_of_board(int64_t hidden, int64_t features, const UnitRange& board);
bool divides_features(int64_t hidden, int64_t features, const UnitRange& board);

struct FixedBackState {          // between runs, the later of which comes first
  std::vector<int16_t> errors;   // [stream][gate][unit] that the recurrent product takes
  std::vector<int16_t> carried;  // [stream][unit]
};

FixedBackState zero_back_state(const FixedRecurrent& layer, int64_t streams);

struct FixedErrors {
  std::vector<int16_t> sums;        // [stream][step][unit][gate]: of W x
  std::vector<int16_t> candidates;  // gru: [stream][step][unit], of U h of n
  std::vector<int16_t> features;    // projected: [stream][step][feature], dh for the projection's gradient
};

class FixedSteps {
 public:
  // Fails with kUsage on boards that do not cover the units in order, or whose features they do not divide in the same proportion.
  FixedSteps(const FixedRecurrent& layer, std::vector<UnitRange> boards, const ChainBuild& build, int error_fraction);
  // One board of several, a step at a time: of the layer's weights it has rows of its units in forward() and their columns in back(). What
  // is the others' in h, and in the errors that the recurrent product takes, the caller writes into the states between the steps.
  // Of a part, forward() takes what units give out in kept.units where it is the features', and leaves it there where it is the units',
  // and back() takes errors of all features in place of the layer's where it is the units'.
  FixedSteps(const FixedRecurrent& layer, const UnitRange& board, const ChainBuild& build, int error_fraction,
             StepPart part = StepPart::kBoth);

  // `sums` are [stream][step][unit][gate]; gives h as [stream][step][feature].
  std::vector<int16_t> forward(std::span<const int16_t> sums, const RecurrentRun& run, RecurrentState& state, FixedKept& kept,
                               RecurrentCounters& counters) const;
  // `errors` are [stream][step][feature].
  FixedErrors back(std::span<const int16_t> errors, const RecurrentRun& run, const FixedKept& kept, FixedBackState& state,
                   ArithmeticCounters& counters) const;
  FixedBackState zero_back_state(int64_t streams) const { return millrace::zero_back_state(layer_, streams); }

 private:
  const FixedRecurrent& layer_;
  std::vector<UnitRange> boards_;
  ChainBuild build_;
  int error_fraction_;
  StepPart part_ = StepPart::kBoth;
};

}  // namespace millrace
