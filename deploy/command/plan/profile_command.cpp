// `millrace profile`: how long each layer group of a model takes here, as a CSV for `millrace plan --profile`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/progress.h"
#include "core/base/writable.h"
#include "core/graph/zoo.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/devices/device_registry.h"
#include "partitioner/profile/measure.h"

namespace millrace {
namespace {

constexpr const char* kProfileExamples = R"(
Examples:
  millrace profile --model digits-cnn --out chain.csv
  millrace plan --profile chain.csv --devices 3 --objective max --link-gbps 10
      measured here, then cut into three stages
  millrace profile --model vgg16-cifar --micro-batch 8 --repeats 9 > chain.csv

A line per layer group, a layer that computes with what runs behind it: microseconds forward and backward (median over the
repeats, measured), then bytes of one micro-batch: what crosses a cut behind the line, parameters, activations held.
)";

struct ProfileFlags {
  std::string model, out, kernel_table;
  int64_t micro_batch = 32;
  int64_t repeats = 5;
  int threads = 1;
};

int profile_model(const ProfileFlags& flags) {
  const Graph graph(find_model(flags.model));
  require_writable("--out", flags.out);
  warn_of_threads(flags.threads);
  const std::unique_ptr<Device> device = open_device("cpu", {.threads = flags.threads, .kernel_table = flags.kernel_table});
  std::unique_ptr<Progress> progress;
  int64_t done = 0;
  const Profile profile =
      measure_profile(graph, *device, {.micro_batch = flags.micro_batch, .repeats = flags.repeats}, [&](int64_t now, int64_t total) {
        if (!progress) progress = std::make_unique<Progress>(fmt::format("{} at micro-batch {}", flags.model, flags.micro_batch), total);
        progress->advance(now - done);
        done = now;
      });
  if (progress) progress->finish();
  const std::string csv = csv_of(profile);
  if (flags.out.empty()) {
    std::fwrite(csv.data(), 1, csv.size(), stdout);
    return 0;
  }
  write_atomically(flags.out, csv);
  fmt::print("{}: {} groups, {:.3f} ms forward and backward per micro-batch of {} (measured, median of {}) on {}\n", flags.out,
             profile.size(), 1e3 * profile.total_seconds(), flags.micro_batch, flags.repeats, device->description());
  return 0;
}

}  // namespace

void add_profile_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* command = app.add_subcommand("profile", "measure how long each layer takes here, for plan --profile");
  command->footer(kProfileExamples);
  not_empty(command->add_option("--model", flags->model, "zoo name or PATH.textproto")->required());
  whole(command->add_option("--micro-batch", flags->micro_batch, "samples per forward and backward [32]"), 1, INT32_MAX);
  whole(command->add_option("--repeats", flags->repeats, "steps to take the median of [5]"), 1, 10'000);
  whole(command->add_option("--threads", flags->threads, "[1]"), 1, 4096);
  not_empty(command->add_option("--kernel-table", flags->kernel_table, "table written by millrace tune"));
  not_empty(command->add_option("--out", flags->out, "CSV to write [standard output]"));
  command->callback([flags, &invocation] { invocation.run = [flags] { return profile_model(*flags); }; });
}

}  // namespace millrace
