// `millrace study`: rings of one device by how many there are, and a paper's figures beside this program's.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/progress.h"
#include "core/graph/zoo.h"
#include "deploy/command/catalogue_registry.h"
#include "deploy/command/command.h"
#include "deploy/command/command_words.h"
#include "deploy/command/cost_models.h"
#include "deploy/command/flag_checks.h"
#include "deploy/command/ring_flags.h"
#include "deploy/command/study_output.h"
#include "node/simulate/simulate.h"
#include "partitioner/planner/planner.h"
#include "partitioner/study/study_page.h"

namespace millrace {
namespace {

constexpr const char* kExamples = R"(
Examples:
  millrace study --model vgg16 --device vc709 --count 5:100:5 --link-gbps-both 150
      throughput by number of boards, and how many of them stay linear: FPDeep's Fig. 15
  millrace study --model resnet50 --device u280 --count 1,2,4,8,16 --out studies/resnet50
      points.csv, study.json and index.html with charts
  millrace study --model vgg16 --device vc709 --count 16 --strategy data --mini-batch 128
      what FPDeep is compared with: layer, model and data parallelism
  millrace study --model alexnet --device vc709 --count 5:85:20 --simulate
      the same rings row by row in virtual time, beside the formulas
  millrace study --paper fpdeep
      every figure of FPDeep's text beside this program's, with where its constants come from
)";

struct StudyFlags {
  std::string model, device, count = "5:100:5", strategy = "hybrid", alignment, optimizer, out, paper, command;
  std::vector<std::string> catalogues, given;
  std::optional<double> link_gbps, link_gbps_both;
  std::optional<int64_t> mini_batch, micro_batch, bits, images;
  double epoch_images = kImageNetImages;
  int threads = 0;
  bool fc_barrier = false, simulate = false, json = false;
};

// A bar that appears with the first step.
class StudyBar {
 public:
  explicit StudyBar(std::string what) : what_(std::move(what)) {}
  ~StudyBar() {
    if (progress_) progress_->finish();
  }
  void show(int64_t done, int64_t of) {
    if (!progress_) progress_ = std::make_unique<Progress>(what_, of);
    progress_->advance(done - shown_);
    shown_ = done;
  }

 private:
  std::string what_;
  std::unique_ptr<Progress> progress_;
  int64_t shown_ = 0;
};

std::vector<int64_t> counts_of(const StudyFlags& flags) {
  try {
    return parse_counts(flags.count);
  } catch (const Error& error) {
    throw error.within("--count");
  }
}

PlanOptions options_of(const StudyFlags& flags, const CostModel& model) {
  PlanOptions options;
  options.strategy = strategy_from(flags.strategy);
  if (model.dedicated_engines()) options.optimizer.kind = OptimizerKind::kSgd;  // as FPDeep: no further copy on chip
  if (!flags.alignment.empty()) options.alignment = alignment_from(flags.alignment);
  if (!flags.optimizer.empty()) options.optimizer.kind = optimizer_from(flags.optimizer);
  if (flags.mini_batch) options.mini_batch = *flags.mini_batch;
  if (flags.micro_batch) options.micro_batch = *flags.micro_batch;
  options.fc_barrier = flags.fc_barrier;
  return options;
}

void write_all(const std::string& folder, const std::vector<std::pair<const char*, std::string>>& files) {
  for (const auto& [name, content] : files) write_atomically(std::filesystem::path(folder) / name, content);
  log::info("written to {}", folder);
}

// Every plan row by row in virtual time, beside what its formulas say.
void add_simulations(const StudyTask& task, const StudyFlags& flags, Study& study) {
  StudyBar bar("simulating rings");
  int64_t done = 0;
  for (StudyPoint& point : study.points) {
    if (point.feasible) {
      const Outcome outcome = make_plan(plan_task_of(task, point.devices, task.link));
      if (!outcome.plan)
        fail(ErrorCode::kUsage,
             "--simulate has no effect with --strategy {}, which no ring of segments expresses; leave one of the two out",
             name_of(task.options.strategy));
      const SimulationResult result =
          simulate(*outcome.plan, *task.graph, {.samples = flags.images.value_or(enough_samples(*outcome.plan))});
      point.simulated = {result.images_per_second, result.idle_fraction, result.in_flight_samples};
    }
    bar.show(++done, static_cast<int64_t>(study.points.size()));
  }
}

int sweep(const StudyFlags& flags) {
  if (flags.images && !flags.simulate) fail(ErrorCode::kUsage, "--images has no effect without --simulate; leave it out");
  if (flags.model.empty() || flags.device.empty())
    fail(ErrorCode::kUsage, "give --model and --device, such as --model vgg16 --device vc709 (or --paper fpdeep)");
  const Graph graph(find_model(flags.model));
  const Catalogue catalogue = catalogue_with(flags.catalogues);
  static_cast<void>(catalogue.find(flags.device));  // so that an unknown one is named alone
  Cluster pair = cluster_from(fmt::format("{0}+{0}", flags.device), catalogue);
  set_link_gbps(pair, flags.link_gbps, flags.link_gbps_both);
  const Arithmetic arithmetic = arithmetic_for(pair, catalogue, flags.bits);
  const CostModels models = models_for(pair, catalogue, arithmetic);

  StudyTask task;
  task.graph = &graph;
  task.device = pair.devices.front().device;
  task.model = models.of_devices.front();
  task.link = pair.links.front();
  task.options = options_of(flags, *task.model);
  task.options.arithmetic = arithmetic;
  task.counts = counts_of(flags);
  task.epoch_images = flags.epoch_images;
  task.threads = flags.threads;

  if (!flags.out.empty()) make_folders(flags.out);  // before the work, so that a wrong path is told at once
  Study study;
  {
    StudyBar bar("planning rings");
    study = run_study(task, [&](int64_t done, int64_t of) { bar.show(done, of); });
  }
  if (flags.simulate) add_simulations(task, flags, study);
  const std::string json = study_json(task, study);
  fmt::print("{}", flags.json ? json : study_table(task, study));
  if (!flags.out.empty()) {
    const std::string page = study_page(task, study, flags.command);
    write_all(flags.out, {{"points.csv", study_csv(study)}, {"study.json", json}, {"index.html", page}});
  }
  const bool some = std::any_of(study.points.begin(), study.points.end(), [](const StudyPoint& point) { return point.feasible; });
  if (some) return 0;
  fmt::print(stderr, "millrace: infeasible: no ring of this size holds the model; the first one: {}\n", study.points.front().reason);
  return exit_status_of(ErrorCode::kInfeasible);
}

int reproduce(const StudyFlags& flags) {
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
  if (!flags.out.empty()) make_folders(flags.out);
  std::vector<PaperRow> rows;
  {
    StudyBar bar("planning FPDeep's rings");
    rows = fpdeep_rows(boards, [&](int64_t done, int64_t of) { bar.show(done, of); });
  }
  const std::string json = paper_json(rows, board);
  fmt::print("{}", flags.json ? json : paper_table(rows, board));
  if (!flags.out.empty())
    write_all(flags.out, {{"rows.csv", paper_csv(rows)}, {"study.json", json}, {"index.html", paper_page(rows, flags.command)}});
  const auto failed = std::count_if(rows.begin(), rows.end(), [](const PaperRow& row) { return row.verdict == Verdict::kNotReproduced; });
  if (failed == 0) return 0;
  fmt::print(stderr, "millrace: {} of {} figures are not reproduced\n", failed, rows.size());
  return 1;
}

}  // namespace

void add_study_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<StudyFlags>();
  CLI::App* command = app.add_subcommand("study", "rings by number of devices: throughput, links, memory; a paper's figures");
  command->footer(kExamples);

  const auto option = [&](const char* heading, const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->group(heading);
  };
  const auto flag = [&](const char* heading, const char* name, bool& value, const char* help) {
    command->add_flag(name, value, help)->group(heading);
  };
  constexpr const char* kWhat = "What to study";
  not_empty(option(kWhat, "--model", flags->model, "zoo name (millrace models) or PATH.textproto"));
  not_empty(option(kWhat, "--device", flags->device, "one of millrace devices"));
  option(kWhat, "--count", flags->count, "numbers of devices: FROM:TO:STEP, or a list with commas [5:100:5]");
  option(kWhat, "--strategy", flags->strategy, "hybrid, layer, model, data [hybrid]");
  not_empty(option(kWhat, "--paper", flags->paper, "a paper's own rings and figures instead: fpdeep"));
  not_empty(option(kWhat, "--catalogue", flags->catalogues, "a file with devices of your own"));

  constexpr const char* kTraining = "How it will train";
  option(kTraining, "--alignment", flags->alignment, "fpdeep, flush, 1f1b, stash, zero-bubble [fpdeep]");
  whole(option(kTraining, "--mini-batch", flags->mini_batch, "samples between two updates [128]"), 1);
  whole(option(kTraining, "--micro-batch", flags->micro_batch, "samples per message [1 on FPGAs, else what is fastest]"), 1);
  option(kTraining, "--optimizer", flags->optimizer, "sgd, momentum, nesterov, adam [sgd on FPGAs, else momentum]");
  whole(option(kTraining, "--bits", flags->bits, "width of elements, 16 or 32 [16 on FPGAs, else 32]"), 1);
  flag(kTraining, "--fc-barrier", flags->fc_barrier, "activations wait one sample more for fully connected layers");

  constexpr const char* kLinks = "Links";
  real(option(kLinks, "--link-gbps", flags->link_gbps, "of every link, per direction [the device's own]"), Least::kAboveZero);
  real(option(kLinks, "--link-gbps-both", flags->link_gbps_both, "of every link, both directions together"), Least::kAboveZero);

  constexpr const char* kSimulation = "Simulation";
  flag(kSimulation, "--simulate", flags->simulate, "also run every plan row by row in virtual time, as millrace simulate does");
  whole(option(kSimulation, "--images", flags->images, "images of each run [as millrace simulate]"), 2);

  constexpr const char* kOutput = "Output";
  real(option(kOutput, "--epoch-images", flags->epoch_images, "images of an epoch [1281167]"), Least::kAboveZero);
  whole(option(kOutput, "--threads", flags->threads, "rings planned at once [as many as the machine runs, 8 at most]"), 1, 1024);
  not_empty(option(kOutput, "--out", flags->out, "write points.csv, study.json and index.html into this folder"));
  flag(kOutput, "--json", flags->json, "JSON on standard output");

  command->callback([command, flags, &invocation] {
    flags->command = typed_words(*command);
    for (const CLI::Option* given : command->parse_order()) flags->given.push_back(given->get_name());
    invocation.json = flags->json;
    invocation.run = [flags] { return flags->paper.empty() ? sweep(*flags) : reproduce(*flags); };
  });
}

}  // namespace millrace
