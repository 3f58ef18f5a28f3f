// `millrace study --paper`: a paper's figures beside this program's.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "deploy/command/line/command_words.h"
#include "deploy/command/study/paper_output.h"
#include "deploy/command/study/study_flags.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "partitioner/study/paper_page.h"

namespace millrace {
namespace {

FpdeepRun simulated_run(const Plan& plan, const Graph& graph, int64_t images, bool fc_barrier) {
  const SimulationResult result = simulate(plan, graph, {.samples = images, .fc_barrier = fc_barrier});
  FpdeepRun run{.figures = simulated_figures(result), .act_ram_bits = {}};
  for (const SimulatedDevice& device : result.devices)
    run.act_ram_bits.push_back(static_cast<double>(device.act_ram_peak_bits - device.act_ram_plan_bits));
  return run;
}

}  // namespace

int run_study_paper(const StudyFlags& flags, const StudyTeam& team) {
  static const std::vector<std::string> kPapers = {"fpdeep", "bb-lstm", "farnn"};
  if (std::find(kPapers.begin(), kPapers.end(), flags.paper) == kPapers.end())
    fail(ErrorCode::kUsage, "--paper \"{}\" is not one that is known{}", flags.paper, suggestion(flags.paper, kPapers));
  for (const std::string& name : flags.given)
    if (name != "--paper" && name != "--json" && name != "--out" && name != "--catalogue" && name != "--simulate" && name != "--threads")
      fail(ErrorCode::kUsage, "{} has no effect with --paper, whose rings are the paper's; leave one of the two out", name);
  if (flags.paper == "bb-lstm") return team.rank == 0 ? run_study_bb_lstm(flags) : 0;
  if (flags.paper == "farnn") return team.rank == 0 ? run_study_farnn(flags) : 0;
  const Catalogue catalogue = catalogue_with(flags.catalogues);
  const CatalogueDevice& board = catalogue.find("vc709");
  const Cluster one = cluster_from("vc709", catalogue);
  const CostModels models_16 = models_for(one, catalogue, {ElementType::kFixed16, ElementType::kFixed16});
  const CostModels models_32 = models_for(one, catalogue, {ElementType::kFloat32, ElementType::kFloat32});
  FpdeepBoards boards{.bits_16 = models_16.of_devices.front(), .bits_32 = models_32.of_devices.front(), .board = board, .simulate = {}};
  if (flags.simulate) boards.simulate = simulated_run;
  const std::unique_ptr<StudyJournal> journal =
      open_study_journal(flags, team,
                         {{"program", std::string(kVersion)},
                          {"--paper", flags.paper},
                          {"--simulate", flags.simulate ? "given" : "not given"},
                          {"the device's constants", digest_of_constants(*boards.bits_16) + digest_of_constants(*boards.bits_32)}});
  StudyWork work(team, journal.get(), study_threads(flags, team));
  tell_what_is_found(flags, team, work, "pieces");
  FpdeepReport report;
  {
    StudyBar bar(flags.simulate ? "planning and simulating FPDeep's rings" : "planning FPDeep's rings", team);
    report = fpdeep_report(boards, work, [&](int64_t done, int64_t of) { bar.show(done, of); });
  }
  const std::vector<PaperRow>& rows = report.rows;
  const auto failed = std::count_if(
      rows.begin(), rows.end(), [](const PaperRow& row) { return row.verdict == Verdict::kNotReproduced && row.figure.otherwise.empty(); });
  if (team.rank > 0) return failed == 0 ? 0 : 1;
  const std::string json = paper_json(rows, board);
  fmt::print("{}", flags.json ? json : paper_table(rows, board));
  if (!flags.out.empty())
    write_study(flags.out, {{"rows.csv", paper_csv(rows)}, {"study.json", json}, {"index.html", paper_page(report, flags.command)}});
  if (failed == 0) return 0;
  fmt::print(stderr, "millrace: {} of {} figures are not reproduced\n", failed, rows.size());
  return 1;
}

}  // namespace millrace
