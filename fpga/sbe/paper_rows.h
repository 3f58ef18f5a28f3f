// BB-LSTM's figures, one by one, beside this model's, with a verdict for each; and the curves of its Figs 9, 13, 14 and 15.
//
//   for (const BbLstmRow& row : bb_lstm_rows()) fmt::print("{} {} {}\n", row.quantity, row.paper, row.verdict);
//
// The text at hand lacks the contents of the paper's tables and figures; what is quoted stands in its running text. Verdicts:
//   holds                     within the row's tolerance
//   paper contradicts itself  two statements of the paper exclude each other; the note says which
//   not pinned                the text leaves something open that decides it
//   reported                  follows from the paper's own figures, or is not modelled
//   not reproduced            the model gives something else
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

struct BbLstmRow {
  std::string_view id;
  std::string_view place;  // in the paper
  std::string_view quantity;
  std::string_view unit;
  double paper = 0;  // NaN: no number
  std::string paper_text;
  double model = 0;             // NaN: not modelled
  std::string model_text = {};  // where one number does not say it
  double tolerance = 0;         // relative; of rows that can hold
  std::string_view verdict = {};
  std::string_view constants = {};  // what the figure rests on
  std::string_view note = {};
  bool expected_to_hold = true;  // false: that it is not reproduced is known, and said in the note
};

std::vector<BbLstmRow> bb_lstm_rows();

// A line of a curve: x, and P / Npe by the paper's equations, by the model, by the event simulation.
struct CurvePoint {
  double x = 0;
  double paper = 0, model = 0, simulated = 0;
};
struct BbLstmCurve {
  std::string_view id;  // "fig13"
  std::string_view title;
  std::string_view x_label;
  std::vector<CurvePoint> points;
};
std::vector<BbLstmCurve> bb_lstm_curves();

// Block RAM of the paper's design by number of blocks: equation 7, two memories, one memory for both slots.
struct MemoryPoint {
  int64_t blocks = 0;
  double by_bits = 0, two_memories = 0, one_memory = 0;
  bool fits_two = false, fits_one = false;
};
std::vector<MemoryPoint> bb_lstm_memory();

}  // namespace millrace
