// `millrace study`: rings of one device by how many there are, and a paper's figures beside this program's.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "core/base/error.h"
#include "core/base/field_kinds.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/command_words.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/study/study_flags.h"
#include "deploy/session/accounting.h"

namespace millrace {
namespace {

constexpr const char* kStudyExamples = R"(
Examples:
  millrace study --model vgg16 --device vc709 --count 5:100:5 --link-gbps-both 150
      throughput by number of boards, and how many of them stay linear: FPDeep's Fig. 15
  millrace study --model resnet50 --device u280 --count 1,2,4,8,16 --batch-norm running --out studies/resnet50
      points.csv, study.json and index.html with charts
  millrace study --model vgg16 --device vc709 --count 16 --strategy data --mini-batch 128
      what FPDeep is compared with: layer, model and data parallelism
  millrace study --model alexnet --device vc709 --count 5:85:20 --simulate
      the same rings row by row in virtual time, beside the formulas
  millrace study --model vgg16 --device vc709 --count 8:64:8 --strategy hybrid,layer,model,data --link-gbps 25,75 --out studies/strategies
      a curve for each combination, FPDeep's four metrics side by side; started again, it goes on where it was stopped
  millrace study --model vgg16 --device vc709 --count 3:16 --topology 1d,2d --layers conv2_1,conv2_2,conv3_1
      one- and two-dimensional interconnect: FPDeep's Fig. 10
  millrace study --model vgg16 --device vc709 --count 100 --mtbf-hours 4380 --checkpoint-seconds 20 --out studies/failures
      throughput lost to failures by checkpoint interval, simulated and in closed form, beside Young's and Daly's best
  mpirun -n 4 millrace study --model vgg16 --device vc709 --count 8:100 --simulate --out studies/vgg16
      the points shared out over ranks; the same result as alone
  millrace study --model deepspeech2-lstm --cluster p100+vu9p --batch-norm running --mini-batch 1,4,16 --strategy kind,layer --bits 32
      one ring by mini-batch and strategy: where a GPU stops gaining from a board beside it
  millrace study --paper fpdeep
      every figure of FPDeep's text beside this program's, with where its constants come from
  millrace study --paper bb-lstm --out studies/bb-lstm
      BB-LSTM's figures and curves: large LSTMs on one small board by loading blocks of weights while others are used
  millrace study --paper farnn --simulate --out studies/farnn
      FARNN's figures and curves: recurrent layers trained by a GPU and a board together, by formulas and event by event
  millrace study --engine sbe --model lrcn-lstm-256 --device zc706 --limit bram36=300 --target 25000
      every way to build that engine for the model's recurrent layers on the board: the fastest, the smallest, those that nothing beats
  millrace study --engine pe_chain --model deepspeech2-lstm --device vc709
      the recurrent part of its layers beside a GPU: elements, memory and time of a step on one to six boards in a row
)";

// Words of a list: "hybrid,layer".
CLI::Option* list(CLI::Option* option) { return option->delimiter(','); }

}  // namespace

void add_study_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<StudyFlags>();
  CLI::App* command = app.add_subcommand("study", "rings by number of devices: throughput, links, memory; a paper's figures");
  command->footer(kStudyExamples);

  const auto option = [&](const char* heading, const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->group(heading);
  };
  const auto flag = [&](const char* heading, const char* name, bool& value, const char* help) {
    command->add_flag(name, value, help)->group(heading);
  };
  constexpr const char* kWhat = "What to study";
  not_empty(option(kWhat, "--model", flags->model, "zoo name (millrace models) or PATH.textproto"));
  not_empty(option(kWhat, "--device", flags->device, "one of millrace devices"));
  not_empty(option(kWhat, "--cluster", flags->cluster,
                   "a ring (as in plan) instead of many of one device: mini-batches and strategies side by side"));
  option(kWhat, "--count", flags->count, "numbers of devices: FROM:TO:STEP, or a list with commas [5:100:5]");
  list(option(kWhat, "--strategy", flags->strategies, "hybrid, layer, kind, model, data, or a list of them with commas [hybrid]"));
  list(option(kWhat, "--topology", flags->topologies, "1d, or 1d,2d: also what a two-dimensional interconnect would cost [1d]"));
  list(option(kWhat, "--layers", flags->layers, "with 2d: consecutive layers that are compared [all]"));
  not_empty(option(kWhat, "--paper", flags->paper, "a paper's own rings and figures instead: fpdeep, bb-lstm, farnn"));
  not_empty(
      option(kWhat, "--engine", flags->engine, "an engine of recurrent layers on one board instead, built in every way: sbe, pe_chain"));
  not_empty(option(kWhat, "--catalogue", flags->catalogues, "a file with devices of your own"));

  constexpr const char* kEngine = "With --engine";
  list(
      option(kEngine, "--limit", flags->limits,
             "RESOURCE=AMOUNT instead of the board's: dsp, lut, lutram_lut, bram36, uram, bytes_per_second, bus_bits; seconds of a batch"));
  real(option(kEngine, "--target", flags->target, "steps a second, at least"), Least::kAboveZero);
  whole(option(kEngine, "--streams", flags->streams, "sequences side by side, at most [4]"), 1, 64);

  constexpr const char* kTraining = "How it will train";
  list(option(kTraining, "--alignment", flags->alignments, "fpdeep, flush, 1f1b, stash, zero-bubble, or a list of them [fpdeep]"));
  whole(list(option(kTraining, "--mini-batch", flags->mini_batches, "samples between two updates; with --cluster a list, too [128]")), 1,
        text::kMostBatch);
  whole(option(kTraining, "--micro-batch", flags->micro_batch,
               "samples per message [1 on FPGAs unless weights off chip ask for more, else what is fastest]"),
        1, text::kMostBatch);
  option(kTraining, "--accounting", flags->accounting, kFpdeepAccounting);
  option(kTraining, "--optimizer", flags->optimizer, "sgd, momentum, nesterov, adam, adamw [sgd on FPGAs, else momentum]");
  not_empty(
      option(kTraining, "--batch-norm", flags->batch_norm, "statistics in training: exact (the micro-batch's), running [as the model]"));
  whole(list(option(kTraining, "--bits", flags->bits, "width of elements: 16, 32 or 16,32 [16 on FPGAs, else 32]")), 1);
  flag(kTraining, "--fc-barrier", flags->fc_barrier,
       "activations wait for the whole map before fully connected layers, and for these, one after the other");
  flag(kTraining, "--fpdeep-lifetimes", flags->fpdeep_lifetimes,
       "activations are held as long as FPDeep's formulas say, which let errors pass strides and links in no time");

  constexpr const char* kLinks = "Links";
  real(list(option(kLinks, "--link-gbps", flags->link_gbps, "of every link, per direction, or a list [the device's own]")),
       Least::kAboveZero);
  real(list(option(kLinks, "--link-gbps-both", flags->link_gbps_both, "of every link, both directions together, or a list")),
       Least::kAboveZero);

  constexpr const char* kSimulation = "Simulation";
  flag(kSimulation, "--simulate", flags->simulate, "also run every plan row by row in virtual time, as millrace simulate does");
  whole(option(kSimulation, "--images", flags->images, "images of each run [as millrace simulate]"), 2);

  add_failure_flags(*command, flags->failures);
  add_seed_flag(*command, flags->seed);

  constexpr const char* kOutput = "Output";
  real(option(kOutput, "--epoch-images", flags->epoch_images, "samples of an epoch [1281167 where they are images]"), Least::kAboveZero);
  whole(option(kOutput, "--threads", flags->threads, "rings planned at once [as many as the machine runs, 8 at most]"), 1, 1024);
  not_empty(option(kOutput, "--out", flags->out,
                   "write points.csv, study.json and index.html into this folder; go on there with what a stopped study left"));
  flag(kOutput, "--json", flags->json, "JSON on standard output");

  command->callback([command, flags, &invocation] {
    flags->command = typed_words(*command);
    for (const CLI::Option* given : command->parse_order()) flags->given.push_back(given->get_name());
    invocation.json = flags->json;
    invocation.run = [flags] {
      return with_study_team([&](const StudyTeam& team) {
        for (const char* name : {"--limit", "--target", "--streams"})
          if (flags->engine.empty() && std::ranges::find(flags->given, name) != flags->given.end())
            fail(ErrorCode::kUsage, "{} says how an engine is built, and has no effect without --engine", name);
        if (flags->mini_batches.size() == 1) flags->mini_batch = flags->mini_batches.front();
        if (!flags->cluster.empty()) return team.rank == 0 ? run_study_cluster(*flags) : 0;
        if (flags->mini_batches.size() > 1)
          fail(ErrorCode::kUsage, "several mini-batches are compared on a cluster; add --cluster, or give one");
        if (!flags->engine.empty()) return team.rank == 0 ? run_study_engine(*flags) : 0;
        return flags->paper.empty() ? run_study_sweep(*flags, team) : run_study_paper(*flags, team);
      });
    };
  });
}

}  // namespace millrace
