// `millrace tune`: measures which convolution algorithm serves each layer here, and writes the table that runs record.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/base/writable.h"
#include "core/cpu/tune.h"
#include "core/graph/zoo.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/devices/device_registry.h"

namespace millrace {
namespace {

constexpr const char* kTuneExamples = R"(
Examples:
  millrace tune --model vgg16-cifar --micro-batch 32 --out table.csv
  millrace train --model vgg16-cifar --data synthetic:3x32x32:10:2000 --kernel-table table.csv

Training never times anything: it follows a table, the shipped one or yours, and a run's fingerprint names it. So the same
table gives the same bits, and another table may give others in the last place.
)";

struct TuneFlags {
  std::string model;
  std::string out = "kernel_table.csv";
  std::vector<int64_t> micro_batches = {32};
  int threads = 1;
};

int tune_model(const TuneFlags& flags) {
  const Graph graph(find_model(flags.model));
  if (graph.macs().conv == 0) fail(ErrorCode::kUsage, "{} has no convolutions, so there is nothing to tune", flags.model);
  require_writable("--out", flags.out);
  warn_of_threads(flags.threads);
  KernelTable table = std::filesystem::exists(flags.out) ? KernelTable::load(flags.out) : KernelTable();
  const size_t before = table.size();
  for (const int64_t micro_batch : flags.micro_batches) {
    std::unique_ptr<Progress> progress;
    int64_t done = 0;
    table.merge(tune(graph, micro_batch, flags.threads, [&](const TuneProgress& now) {
      if (!progress) progress = std::make_unique<Progress>(fmt::format("{} at micro-batch {}", flags.model, micro_batch), now.total);
      progress->advance(now.done - done, now.finding);
      done = now.done;
    }));
    if (progress) progress->finish();
  }
  table.save(flags.out);
  fmt::print("{}: {} entries ({} before), digest {}; use it with --kernel-table {}\n", flags.out, table.size(), before, table.digest(),
             flags.out);
  return 0;
}

}  // namespace

void add_tune_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<TuneFlags>();
  CLI::App* command = app.add_subcommand("tune", "measure which convolution algorithm serves each layer on this machine");
  command->footer(kTuneExamples);
  not_empty(command->add_option("--model", flags->model, "zoo name or PATH.textproto")->required());
  whole(command->add_option("--micro-batch", flags->micro_batches, "one or several: 8,32 [32]")->delimiter(','), 1);
  whole(command->add_option("--threads", flags->threads, "[1]"), 1, 4096);
  not_empty(command->add_option("--out", flags->out, "table to write; entries of an existing one are kept [kernel_table.csv]"));
  command->callback([flags, &invocation] { invocation.run = [flags] { return tune_model(*flags); }; });
}

}  // namespace millrace
