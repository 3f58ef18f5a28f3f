// The report of a plan: one HTML page for whoever must judge it, or explain it to others.
//
//   ReportContext context{.command = "millrace plan --model vgg16 --cluster vc709x15 --report out",
//                         .explanation = {"More boards would help: 16 give 74.0 images/s."}, .epoch_images = 1281167};
//   write_plan_report("out", plan, graph, summarize(plan, graph), context);          // out/index.html
//
// Top to bottom: key figures, what limits the plan, the ring, resources, links, parameter homes, where time goes, and
// tables of every shard and constant. One self-contained file: no scripts, fonts or pictures from elsewhere; light and
// dark; printable. Every device and layer is named at any size; charts of more than kMostColumns devices show the fullest
// of each few neighbours, and say so.
// Plan, graph and summary belong together (summary = summarize(plan, graph)). The same input gives the same page, to
// the byte. Figures that are not finite read "not known".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "partitioner/planning/summary.h"

namespace millrace {

inline constexpr size_t kMostColumns = 250;

// What is generated for a device, where it is a board.
struct BuiltTime {
  bool counts = true;  // is a board that computes something; hardware is generated for those alone
  bool generated = false;
  bool fits = false;           // the board
  double planned_seconds = 0;  // per image, of its slowest engine
  double built_seconds = 0;    // per image, of its slowest stage
};

struct ReportContext {
  std::string command;                       // that made the plan; empty: not said
  std::vector<std::string> explanation;      // sentences: what limits the plan, what would lift it
  double epoch_images = 0;                   // 0: no hours per epoch
  double solve_seconds = 0;                  // measured; 0: not said
  std::optional<double> pace_ratio;          // the built boards' pace over the plan's; nothing: not all are generated, or there are none
  std::optional<double> waiting_pace_ratio;  // likewise of the whole ring, whose memories may be too small to keep the engines' pace
  std::string built_text;                    // that in words; empty: there are no boards
  std::vector<BuiltTime> built;              // by device; empty: not known
};

std::string plan_report(const Plan& plan, const Graph& graph, const PlanSummary& summary, const ReportContext& context);
// Makes the folder when there is none and writes folder/index.html whole. Fails with kIo.
void write_plan_report(const std::filesystem::path& folder, const Plan& plan, const Graph& graph, const PlanSummary& summary,
                       const ReportContext& context);

}  // namespace millrace
