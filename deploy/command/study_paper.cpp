// `millrace study --paper`: a paper's figures beside this program's.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "deploy/command/catalogue_registry.h"
#include "deploy/command/command_words.h"
#include "deploy/command/cost_models.h"
#include "deploy/command/paper_output.h"
#include "deploy/command/study_flags.h"
#include "partitioner/study/paper_page.h"

namespace millrace {

int run_study_paper(const StudyFlags& flags, const StudyTeam& team) {
  static const std::vector<std::string> kPapers = {"fpdeep"};
  if (std::find(kPapers.begin(), kPapers.end(), flags.paper) == kPapers.end())
    fail(ErrorCode::kUsage, "--paper \"{}\" is not one that is known{}", flags.paper, suggestion(flags.paper, kPapers));
  for (const std::string& name : flags.given)
    if (name != "--paper" && name != "--json" && name != "--out" && name != "--catalogue")
      fail(ErrorCode::kUsage, "{} has no effect with --paper, whose rings are the paper's; leave one of the two out", name);
  const Catalogue catalogue = catalogue_with(flags.catalogues);
  const CatalogueDevice& board = catalogue.find("vc709");
  const Cluster one = cluster_from("vc709", catalogue);
  const CostModels models_16 = models_for(one, catalogue, {ElementType::kFixed16, ElementType::kFixed16});
  const CostModels models_32 = models_for(one, catalogue, {ElementType::kFloat32, ElementType::kFloat32});
  const FpdeepBoards boards{.bits_16 = models_16.of_devices.front(), .bits_32 = models_32.of_devices.front(), .board = board};
  std::vector<PaperRow> rows;
  {
    StudyBar bar("planning FPDeep's rings", team);
    rows = fpdeep_rows(boards, [&](int64_t done, int64_t of) { bar.show(done, of); });
  }
  const auto failed = std::count_if(rows.begin(), rows.end(), [](const PaperRow& row) { return row.verdict == Verdict::kNotReproduced; });
  if (team.rank > 0) return failed == 0 ? 0 : 1;
  const std::string json = paper_json(rows, board);
  fmt::print("{}", flags.json ? json : paper_table(rows, board));
  if (!flags.out.empty())
    write_study(flags.out, {{"rows.csv", paper_csv(rows)}, {"study.json", json}, {"index.html", paper_page(rows, flags.command)}});
  if (failed == 0) return 0;
  fmt::print(stderr, "millrace: {} of {} figures are not reproduced\n", failed, rows.size());
  return 1;
}

}  // namespace millrace
