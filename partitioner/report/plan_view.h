// What every section of the report looks up in a plan. Internal to partitioner/report.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/drawing/chart.h"
#include "core/drawing/colour.h"
#include "partitioner/planning/sample_word.h"
#include "partitioner/report/report.h"

namespace millrace {

// A device's time at the plan's pace, in shares of one period.
struct TimeShares {
  double phases[3] = {0, 0, 0};  // FP, EB, PG; with idle they add up to 1
  double idle = 0;
  std::vector<double> shards;  // the same busy time, by shard of DeviceFigures::shards
};

// Where a device's memory goes, in the unit of that memory.
struct MemoryShares {
  double activations = 0, buffers = 0, own = 0, homed = 0;
  double capacity = 0;
  double used() const { return activations + buffers + own + homed; }
};

class PlanView {
 public:
  PlanView(const Plan& plan, const Graph& graph, const PlanSummary& summary, const ReportContext& context);

  const Plan& plan;
  const Graph& graph;
  const PlanSummary& summary;
  const ReportContext& context;
  LayerColours colours;  // of the layers that head a group

  std::string class_of(const std::string& layer) const;
  const TimeShares& time(size_t device) const { return times_[device]; }
  const MemoryShares& on_chip(size_t device) const { return on_chip_[device]; }
  const MemoryShares& large_memory(size_t device) const { return large_memory_[device]; }

  // On-chip memory in whole blocks, homes included, in bits; none where the cost model does not pack.
  std::optional<double> packed_bits(size_t device) const { return packed_bits_[device]; }

  // "image", or of a network of sequences "sequence"
  std::string_view sample() const { return sample_word(graph).one; }
  // "device 3 (vc709-3)"
  std::string device_text(size_t device) const;
  // "fixed16", or of a ring of several kinds "fixed16 on vc709, float32 on h200": boards compute in what travels.
  std::string arithmetic_text() const;
  std::string cluster_text() const;  // "vc709x15", from the devices where the cluster has no name
  // Of the budget of the device's kind; 0 when it has none.
  double budget(size_t device, std::string_view amount) const;
  // Every layer for few, stages for many.
  std::vector<LegendEntry> layer_legend() const;
  // One device (or link) for each column of a chart: all of them, or where those are too many the one with the largest
  // value out of each few neighbours.
  std::vector<size_t> columns(size_t count, const std::function<double(size_t)>& value) const;
  // Below the column of one of them: where its neighbours begin.
  static std::string column_name(size_t count, size_t index);
  // What to say about a chart whose columns stand for several devices each; empty when they do not.
  std::string grouping_note(size_t count, std::string_view what) const;
  // FP alone where nothing is trained.
  size_t phases() const { return plan.purpose == Purpose::kInference ? 1 : 3; }
  // Tooltips of single parts, where there are few enough.
  bool detailed() const { return summary.devices.size() <= 80; }

 private:
  void find_times();
  void find_memory();
  void find_packed_memory();

  std::map<std::string, size_t, std::less<>> layer_index_;
  std::vector<TimeShares> times_;
  std::vector<MemoryShares> on_chip_, large_memory_;
  std::vector<std::optional<double>> packed_bits_;
};

inline constexpr std::string_view kPhaseNames[3] = {"FP", "EB", "PG"};
inline constexpr std::string_view kPhaseClasses[3] = {"p0", "p1", "p2"};
inline constexpr std::string_view kPhaseWords[3] = {"forward (FP)", "error back-propagation (EB)", "parameter gradient (PG)"};

}  // namespace millrace
