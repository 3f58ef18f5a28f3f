// `millrace rtl`: the hardware of one device of a plan, as sources.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/plan/validate.h"
#include "core/train/checkpoint.h"
#include "core/train/initialize.h"
#include "deploy/command/command.h"
#include "deploy/command/flag_checks.h"
#include "fpga/conv_ce/generator/device_files.h"
#include "fpga/conv_ce/generator/device_resources.h"

namespace millrace {
namespace {

struct Flags {
  std::string plan, out, weights;
  int64_t device = 0;
  int64_t test_rows = 0;
  uint64_t seed = 1;
  bool json = false;
};

WeightSource weight_source(const Flags& flags) {
  if (flags.weights.empty())
    return [seed = flags.seed](const Node& node, const ParameterSpec& parameter) {
      std::vector<double> values(static_cast<size_t>(parameter.elements()));
      InitialValues(node.layer, parameter, fans_of(node.parameters.front()), seed).fill(std::span<double>(values));
      return values;
    };
  auto tensors = std::make_shared<TensorMap>(load_weights(flags.weights));
  return [tensors, file = flags.weights](const Node& node, const ParameterSpec& parameter) {
    const std::string name = fmt::format("{}.{}", node.layer.name, parameter.tensor);
    const auto found = tensors->find(name);
    if (found == tensors->end()) fail(ErrorCode::kNotFound, "{} holds no tensor {}; are these weights of the plan's model?", file, name);
    std::vector<double> values(static_cast<size_t>(parameter.elements()));
    copy_values(found->second, std::span<double>(values), name);
    return values;
  };
}

int write_rtl(const Flags& flags) {
  if (flags.plan.empty()) fail(ErrorCode::kUsage, "--plan is missing: a file that `millrace plan --out` wrote");
  if (flags.out.empty()) fail(ErrorCode::kUsage, "--out is missing: the folder for the device's files");
  const Plan plan = load_plan(flags.plan);
  const Graph graph(plan.model);
  if (!flags.weights.empty() && std::filesystem::exists(std::filesystem::path(flags.weights) / "formats.txt"))
    log::warning("{} was trained in calibrated formats; hardware is generated in the engine's own, to which its weights are rounded",
                 flags.weights);
  const DeviceDesign design = device_design(plan, graph, flags.device, weight_source(flags));
  DeviceFiles files = write_device(design, flags.out, {.test_rows = flags.test_rows, .seed = flags.seed});
  const std::string resources = resources_json(design, plan);
  write_atomically(std::filesystem::path(flags.out) / "resources.json", std::string_view(resources));
  files.names.push_back("resources.json");
  files.bytes += static_cast<int64_t>(resources.size());
  if (flags.json) {
    nlohmann::ordered_json shards = nlohmann::ordered_json::array();
    for (const ShardDesign& shard : design.shards)
      shards.push_back({{"layer", shard.layer},
                        {"begin", shard.inputs.begin},
                        {"end", shard.inputs.end},
                        {"tiles", shard.engine.tiles()},
                        {"multipliers", shard.engine.tiles() * shard.engine.taps()},
                        {"planned_multipliers", shard.planned_multipliers}});
    const nlohmann::ordered_json result = {{"module", design.module_name()},
                                           {"folder", flags.out},
                                           {"files", files.names},
                                           {"bytes", files.bytes},
                                           {"lanes", design.lanes},
                                           {"test_rows", files.test_rows},
                                           {"weights_saturated", design.weights_quantised.saturated},
                                           {"shards", shards},
                                           {"resources", nlohmann::ordered_json::parse(resources)}};
    fmt::print("{}\n", result.dump(2));
    return 0;
  }
  fmt::print("{}: {} files in {} ({})\n", design.module_name(), files.names.size(), flags.out, bytes_text(files.bytes));
  for (const ShardDesign& shard : design.shards)
    fmt::print("  {:<20} input channels {} of {}, {} tiles of {} x {} (planned for {} multipliers, built with {} per phase)\n", shard.layer,
               text_of(shard.inputs), shard.layer_inputs, shard.engine.tiles(), shard.engine.kernel, shard.engine.kernel,
               shard.planned_multipliers, shard.engine.tiles() * shard.engine.taps());
  fmt::print("{}", resources_table(design, plan));
  fmt::print("  weights in 16 bits: {} of {} out of range, {:.2f} steps off on average (root mean square)\n",
             design.weights_quantised.saturated, design.weights_quantised.rounded, design.weights_quantised.root_mean_square_error());
  fmt::print("check it: make -C {} lint verilator   ({} rows of every map; or make icarus)\n", flags.out, files.test_rows);
  return 0;
}

}  // namespace

void add_rtl_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("rtl", "write the hardware of one device of a plan: SystemVerilog, images, testbench");
  command->footer(
      "\nExamples:\n"
      "  millrace plan --model digits-cnn --cluster vc709x2 --bits 16 --out plan.textproto\n"
      "  millrace rtl --plan plan.textproto --device 0 --out rtl/device_0\n"
      "  make -C rtl/device_0 lint verilator\n"
      "  millrace rtl --plan plan.textproto --device 0 --weights runs/digits --test-rows 8 --out rtl/device_0\n");
  not_empty(command->add_option("--plan", flags->plan, "plan.textproto"));
  whole(command->add_option("--device", flags->device, "which device of the ring [0]"), 0);
  not_empty(command->add_option("--out", flags->out, "the folder for the device's files"));
  not_empty(command->add_option("--weights", flags->weights, "a run, a checkpoint or a .safetensors file [fresh ones of --seed]"));
  whole(command->add_option("--test-rows", flags->test_rows, "rows of the testbench's maps [as few as every layer needs]"), 1);
  whole(command->add_option("--seed", flags->seed, "of fresh weights and of the testbench's stimuli [1]"), 0, UINT64_MAX);
  command->add_flag("--json", flags->json, "JSON on standard output");
  command->callback([flags, &invocation] {
    invocation.json = flags->json;
    invocation.run = [flags] { return write_rtl(*flags); };
  });
}

}  // namespace millrace
