#include "partitioner/report/report.h"

#include <fmt/format.h>

#include "core/base/files.h"
#include "core/plan/rings_side_by_side.h"
#include "partitioner/report/sections.h"

namespace millrace {

std::string plan_report(const Plan& plan, const Graph& graph, const PlanSummary& summary, const ReportContext& context) {
  const PlanView view(plan, graph, summary, context);
  const size_t devices = summary.devices.size();
  const std::string schedule =
      plan.purpose == Purpose::kInference
          ? fmt::format("inference, forward passes alone, {} {} side by side", plan.micro_batch,
                        plan.micro_batch == 1 ? sample_word(graph).one : sample_word(graph).many)
          : fmt::format("{} alignment, mini-batches of {} in micro-batches of {}{}", name_of(plan.alignment), plan.mini_batch,
                        plan.micro_batch, plan.time_chunks > 1 ? fmt::format(" and {} chunks of time", plan.time_chunks) : "");
  const int64_t rings = rings_side_by_side(plan);
  const std::string which =
      rings > 1 ? fmt::format("One of {} rings side by side, which share a mini-batch of {}: a", rings, rings * plan.mini_batch) : "A";
  Page page(fmt::format("{} on {}", plan.model.name.empty() ? "a network" : plan.model.name, view.cluster_text()),
            fmt::format("{} {} plan for {} {}: {}, arithmetic in {}; {} accounting.", which, plan.strategy, devices,
                        devices == 1 ? "device" : "devices", schedule, view.arithmetic_text(), name_of(plan.accounting)));
  add_key_figures(page, view);
  add_verdict(page, view);
  add_ring(page, view);
  add_resources(page, view);
  add_links(page, view);
  add_homes(page, view);
  add_times(page, view);
  add_segments(page, view);
  add_constants(page, view);
  add_origin(page, view);
  return std::move(page).html(view.colours.style_sheet());
}

void write_plan_report(const std::filesystem::path& folder, const Plan& plan, const Graph& graph, const PlanSummary& summary,
                       const ReportContext& context) {
  const std::string page = plan_report(plan, graph, summary, context);
  make_folders(folder);
  write_atomically(folder / "index.html", page);
}

}  // namespace millrace
