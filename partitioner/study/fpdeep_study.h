// FPDeep's figures against this program's: every number of its text that a plan can answer, from plans; and the curves that its
// figures draw.
//
//   const FpdeepBoards boards{.bits_16 = model16.get(), .bits_32 = model32.get(), .board = catalogue.find("vc709")};
//   const std::vector<PaperRow> rows = fpdeep_rows(boards, work, [&](int64_t done, int64_t of) { ... });
//   for (const PaperRow& row : rows) if (row.verdict == Verdict::kNotReproduced) ...
//   const FpdeepReport report = fpdeep_report(boards, work);             // rows, and what Figs 5, 10, 14, 15 and 16 show
//
// One board with one set of constants for all rows; AlexNet (original widths, no groups), VGG-16 and VGG-19; plans of the
// hybrid strategy with sgd, FPDeep's alignment, 16-bit elements, micro-batch 1, mini-batch 128 unless a row says otherwise.
//   Plans of 15 and of 100 boards, and the linear limits, are what `millrace plan` and `millrace study` answer.
//   Rows over 5 to 100 boards (idle stages, memory needed, inputs bypassed whole) plan with a memory that is never full and
//   compare it with the real one afterwards: FPDeep shows its idle stages for rings whose memory cannot hold the model.
//   "Inputs bypassed whole": every device of a group passes all input channels on, used or not.
// Where boards.simulate is given, rows that say how a ring runs (rates, idle stages, link loads, activations held, samples in flight,
// linear limits) are simulated, too; counts, strategies that no ring expresses and interconnects other than a ring have closed forms
// alone.
// Takes some seconds on a few cores, some minutes with simulations. Pieces are kept and shared out by `work`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/device/cost_model.h"
#include "core/documents/catalogue.h"
#include "partitioner/study/fpdeep_figures.h"
#include "partitioner/study/study.h"
#include "partitioner/study/study_sweep.h"

namespace millrace {

// One run of a plan in virtual time.
struct FpdeepRun {
  SimulatedFigures figures;
  std::vector<double> act_ram_bits;  // by device: the peak, beyond what the plan counts with; below 0: less
};

struct FpdeepBoards {
  const CostModel* bits_16 = nullptr;
  const CostModel* bits_32 = nullptr;
  CatalogueDevice board;  // where the constants come from; ring_ports
  std::function<FpdeepRun(const Plan&, const Graph&, int64_t images, bool fc_barrier)> simulate = {};
};

enum class Verdict {
  kHolds,
  kPaperContradictsItself,  // the model is where a faithful one is; the paper is not, by its own numbers
  kNotReproduced,
  kReported,  // beside the others, with no bound to keep
};
std::string_view name_of(Verdict verdict);  // "holds", "paper contradicts itself", "not reproduced", "reported"

struct PaperRow {
  FpdeepFigure figure;
  double model = 0;    // not finite: could not be measured
  std::string note;    // what the number does not say
  std::string origin;  // constants with where they come from
  Verdict verdict = Verdict::kNotReproduced;
  std::optional<double> simulated;
  std::string simulated_note;
  Verdict simulated_verdict = Verdict::kReported;  // meaningful with simulated

  // Of the paper's number; nothing where it gives none, or only a bound.
  std::optional<double> difference() const;
};

// What fpdeep_rows measures, by figure and network ("" for all three).
struct Measurement {
  double value = 0;
  std::string note;
};
using Measurements = std::map<std::pair<std::string, std::string>, Measurement>;

struct FpdeepReport {
  std::vector<PaperRow> rows;
  std::vector<StudySweep> networks;       // at 150 Gb/s, memory never full: Figs 14, 15, 16
  StudySweep strategies;                  // VGG-16: Fig 5
  WiringStudy wirings;                    // conv2_1, conv2_2, conv3_1: Fig 10
  std::vector<CatalogueValue> constants;  // that rows rest on
  std::shared_ptr<const void> owned;      // what their tasks point to
};

Verdict verdict_on(const FpdeepFigure& figure, double model);
// What some of the rows rest on: the board's constants, then fpdeep_rules.
std::vector<CatalogueValue> fpdeep_constants(std::span<const PaperRow> rows, const CatalogueDevice& board);
std::vector<PaperRow> fpdeep_rows(const FpdeepBoards& boards, StudyWork& work, const StudyProgress& progress = {});
// On one rank, from the start.
std::vector<PaperRow> fpdeep_rows(const FpdeepBoards& boards);
FpdeepReport fpdeep_report(const FpdeepBoards& boards, StudyWork& work, const StudyProgress& progress = {});

}  // namespace millrace
