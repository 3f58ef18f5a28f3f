// FARNN's figures, one by one, beside this model's, by two readings of its elements; and its Figs 7 to 10 as the model draws them.
//
//   for (const FarnnRow& row : farnn_rows()) fmt::print("{} {} {}\n", row.quantity, row.four, row.verdict_four);
//
// The text at hand lacks the contents of the paper's tables and the bars of its figures: what is quoted stands in its running text. The
// number of elements to a unit, which is in Table 2, is thus unknown. Two readings stand side by side:
//   four   256 elements on VU9P, 368 on VU13P (GRU 432 and 640): LSTM-1024 takes four and three slices; slow loads; the forward
//          activation's 204 cycles are exposed at every step
//   wide   416 and 512 (GRU 544 and 672); fast loads; the activation is hidden element by element
// Verdicts: "holds", "not reproduced", "paper contradicts itself" (two statements exclude each other: the note says which),
// "not pinned" (it takes a number that the text does not give). Pure functions.
//
// What a training step takes comes from the formulas of paper_machine.h, or from wherever the caller has it:
//
//   for (const FarnnRow& row : farnn_rows({.training = simulated, ...})) if (row.timed) ...
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"
#include "fpga/pe_chain/paper_machine.h"

namespace millrace {

struct FarnnRow {
  std::string_view id;
  std::string_view place;  // in the paper
  std::string_view quantity;
  std::string_view unit;
  double paper = 0;
  double four = 0, wide = 0;   // NaN: not modelled
  double least = 0, most = 0;  // what holds; infinite: no bound
  std::string_view verdict_four = {}, verdict_wide = {};
  std::string_view constants = {};  // what the figure rests on
  std::string note = {};
  bool expected_to_hold = true;  // by the reading "four"
  bool timed = false;            // made of what training steps take
};

// Seconds of a training step: overlapped, one thing after the other, and with the products of the inputs on the board.
struct FarnnTimes {
  using Seconds = std::function<double(const FarnnNetwork&, const FarnnMachine&)>;
  Seconds training, no_overlap, all_on_board;
};
FarnnTimes farnn_formulas();

// A reading: the machines of both chips.
struct FarnnReading {
  std::string_view name;
  FarnnMachine vu9p, vu13p;               // LSTM
  int64_t gru_vu9p = 0, gru_vu13p = 0;    // elements of a unit
  int64_t rnnt_vu9p = 0, rnnt_vu13p = 0;  // the same, 8,192 weights to an element
  double half_lanes_bytes_per_second = 0;

  FarnnMachine with(FarnnMachine machine, int64_t elements) const {
    machine.elements = elements;
    return machine;
  }
};
const std::vector<FarnnReading>& farnn_readings();  // "four", "wide"

std::vector<FarnnRow> farnn_rows(const FarnnTimes& times = farnn_formulas());

// By one reading.
struct FarnnSeries {
  std::string_view name;  // "VU9P"
  std::vector<std::pair<double, double>> points;
};
struct FarnnCurve {
  std::string id;  // "fig7_lstm_four"
  std::string title;
  std::string_view x_label, y_label;
  std::vector<FarnnSeries> series;
};
std::vector<FarnnCurve> farnn_curves(const FarnnTimes& times = farnn_formulas());

// With their origin: paper, catalogue, fitted, inferred, projected, chosen.
std::vector<Constant> farnn_constants();

}  // namespace millrace
