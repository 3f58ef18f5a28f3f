// `millrace rtl`: the hardware of one device of a plan, as sources.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/plan/validate.h"
#include "core/train/checkpoint.h"
#include "core/train/initialize.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/rtl/rtl_check.h"
#include "deploy/command/rtl/rtl_steps.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/quantities.h"
#include "deploy/session/ring_check.h"
#include "deploy/session/rtl_inference.h"
#include "deploy/session/run_formats.h"
#include "deploy/session/steps_check.h"
#include "fpga/conv_ce/arithmetic/formats_file.h"
#include "fpga/conv_ce/generator/device_files.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/generator/parameter_homes.h"

namespace millrace {
namespace {

struct Flags {
  std::string plan, out, weights, formats;
  int64_t device = 0;
  int64_t test_rows = 0;
  uint64_t seed = 1;
  bool resources = false, check = false, json = false;
  std::vector<std::string> given;  // names of the options on the command line
};

// What tells two models apart: layers of other names, operations or inputs. Whether a layer's parameters stay as they are does not: a
// trained batch norm is frozen for hardware. Empty: nothing does.
std::string difference(const Model& ours, const Model& theirs) {
  const auto find = [](const Model& model, const std::string& name) -> const Layer* {
    const auto found = std::ranges::find(model.layers, name, &Layer::name);
    return found == model.layers.end() ? nullptr : &*found;
  };
  for (const Layer& layer : ours.layers) {
    const Layer* const other = find(theirs, layer.name);
    if (other == nullptr) return fmt::format("there is no layer \"{}\" in it", layer.name);
    if (other->operation != layer.operation || other->inputs != layer.inputs) return fmt::format("its layer \"{}\" is another", layer.name);
  }
  for (const Layer& layer : theirs.layers)
    if (find(ours, layer.name) == nullptr) return fmt::format("it has a layer \"{}\" more", layer.name);
  return "";
}

// The document of the model that weights are of; empty where a file does not say, as those that others wrote.
std::string model_of_weights(const std::string& path) {
  if (std::filesystem::is_directory(path)) return read_checkpoint(locate_checkpoint(path)).model_text;
  const SafetensorsFile file = load_safetensors(path);
  const auto found = file.metadata.find("model");
  return found == file.metadata.end() ? "" : found->second;
}

// Shapes may coincide by chance, so the weights' model is asked, or where a file does not say it, for the same tensors and no others.
void require_weights_of(const Graph& graph, const std::string& file, const TensorMap& tensors) {
  const Model& model = graph.model();
  constexpr const char* kWhatToDo = "give weights of the plan's model, or plan the model of the weights";
  if (const std::string text = model_of_weights(file); !text.empty()) {
    const Model theirs = parse_model(text, file);
    if (const std::string other = difference(model, theirs); !other.empty())
      fail(ErrorCode::kMismatch, "{}: these are weights of model \"{}\", not of the plan's \"{}\": {}; {}", file, theirs.name, model.name,
           other, kWhatToDo);
    return;
  }
  std::set<std::string> known;
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) known.insert(fmt::format("{}.{}", node.layer.name, parameter.tensor));
  for (const auto& [name, tensor] : tensors)
    if (!known.contains(name))
      fail(ErrorCode::kMismatch, "{}: it holds \"{}\", which the plan's model \"{}\" does not have; {}", file, name, model.name, kWhatToDo);
}

WeightSource weight_source(const Flags& flags, const Graph& graph) {
  if (flags.weights.empty())
    return [seed = flags.seed](const Node& node, const ParameterSpec& parameter) {
      std::vector<double> values(to_size(parameter.elements()));
      InitialValues(node.layer, parameter, fans_of(node.parameters.front()), seed).fill(std::span<double>(values));
      return values;
    };
  auto tensors = std::make_shared<TensorMap>(load_weights(flags.weights));
  require_weights_of(graph, flags.weights, *tensors);
  return [tensors, file = flags.weights](const Node& node, const ParameterSpec& parameter) {
    const std::string name = fmt::format("{}.{}", node.layer.name, parameter.tensor);
    const auto found = tensors->find(name);
    if (found == tensors->end()) fail(ErrorCode::kNotFound, "{} holds no tensor {}; are these weights of the plan's model?", file, name);
    if (found->second.dimensions != parameter.dimensions)
      fail(ErrorCode::kMismatch, "{}: {} is [{}], and the plan's model has it as [{}]; give weights of that model", file, name,
           fmt::join(found->second.dimensions, ", "), fmt::join(parameter.dimensions, ", "));
    std::vector<double> values(to_size(parameter.elements()));
    copy_values(found->second, std::span<double>(values), name);
    return values;
  };
}

void require_fixed_point(const Plan& plan) {
  if (plan.arithmetic.wire != ElementType::kFixed16)
    fail(ErrorCode::kMismatch,
         "the plan's elements are {}, and hardware is generated for 16 bits in fixed point alone; plan with --bits 16",
         name_of(plan.arithmetic.wire));
}

void require_fpga(const Plan& plan, int64_t device) {
  if (device < 0 || device >= plan.devices()) return;  // device_design says so
  if (const auto kind = kind_that_is_no_fpga(plan, device)) {
    std::vector<int64_t> boards;
    for (int64_t other = 0; other < plan.devices(); ++other)
      if (!kind_that_is_no_fpga(plan, other)) boards.push_back(other);
    fail(ErrorCode::kUsage, "--device {}: it is {}, and hardware is generated for FPGAs alone; {}", device, *kind,
         boards.empty() ? std::string("the plan has none: plan for boards, such as --cluster vc709x2 (millrace devices lists them)")
                        : fmt::format("the plan's FPGAs are: --device {}", fmt::join(boards, ", ")));
  }
  require_fixed_point(plan);
}

LayerFormats wanted_formats(const Flags& flags, const Plan& plan) {
  const std::string file = flags.formats.empty() ? formats_file_of(flags.weights) : flags.formats;
  return file.empty() ? LayerFormats{} : formats_from(file, plan.model);
}

// Says what the board lacks, and gives it back.
std::string warn_of_size(const DeviceDesign& design, const Plan& plan) {
  const std::string lack = what_does_not_fit(hardware_use(design), plan);
  const WeightsOnChip off_chip = weights_planned_off_chip(design);
  if (!lack.empty())
    log::warning(
        "the generated hardware of device {} takes more than {} has: {} (modelled); it keeps all weights and gradients of its layers{} on "
        "the chip{}: simulate it, or plan for more or larger boards",
        design.index, design.board, lack, off_chip.streamed.empty() ? "" : fmt::format(" but {}", off_chip.streamed),
        off_chip.layers.empty()
            ? ""
            : fmt::format(", {:.0f} BRAM36 for {}, which the plan has in the board's own memory", off_chip.bram36, off_chip.layers));
  return lack;
}

// Says where a plan that balances parameters and the hardware part, and gives it back.
std::string warn_of_homes(const Plan& plan, int64_t device) {
  const ParameterHomes homes = parameter_homes(plan, device);
  if (!homes.any()) return "";
  const std::string text = text_of(homes, device);
  log::warning("{}", text);
  return text;
}

// `flag` is one of those that only tell something.
void allow_with(const Flags& flags, const std::string& flag, const std::set<std::string>& others) {
  for (const std::string& name : flags.given)
    if (name != flag && !others.contains(name))
      fail(ErrorCode::kUsage, "{} has no effect with {}, which writes nothing; leave one of the two out", name, flag);
}

// All devices of the plan, and the pace of what is generated.
int check_plan(const Flags& flags) {
  allow_with(flags, "--check", {"--plan", "--json"});
  const Plan plan = load_plan(flags.plan);
  if (plans_steps_on_boards(plan)) return tell_steps_check(plan, Graph(plan.model), flags.json);
  require_fixed_point(plan);
  if (plan.purpose == Purpose::kInference) return tell_inference_check(plan, Graph(plan.model), flags.json);
  return tell_check(plan, Graph(plan.model), flags.json);
}

// What the device would take, without writing it; weights change nothing there.
int tell_resources(const Flags& flags) {
  allow_with(flags, "--resources", {"--plan", "--device", "--json"});
  const Plan plan = load_plan(flags.plan);
  if (plans_steps_on_boards(plan))
    fail(ErrorCode::kUnavailable,
         "--resources: nothing counts what is generated for boards that make steps; millrace plan --show {} --resources has what is "
         "planned, "
         "--check the engines",
         flags.plan);
  const Graph graph(plan.model);
  require_fpga(plan, flags.device);
  if (plan.purpose == Purpose::kInference)
    fail(ErrorCode::kUnavailable,
         "--resources: no top joins the engines of a plan for inference yet; millrace plan --show {} --resources has "
         "what is planned",
         flags.plan);
  const DeviceDesign design = device_design(plan, graph, flags.device, nullptr);
  warn_of_size(design, plan);
  warn_of_homes(plan, flags.device);
  if (flags.json)
    fmt::print("{}", resources_json(hardware_use(design), plan));
  else
    fmt::print("{}: device {} of {} ({})\n{}", design.module_name(), design.index, plan.devices(), design.board,
               resources_table(hardware_use(design), plan));
  return 0;
}

// Files of two devices in one folder would be taken for one design.
void require_own_folder(const std::filesystem::path& folder, const std::string& module) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "rtl", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("millrace_device_") && name != module + ".sv")
      fail(ErrorCode::kUsage, "--out {}: the folder holds {}, another device's; choose another folder, or remove this one first",
           folder.string(), entry.path().stem().string());
  }
}

int write_rtl(const Flags& flags) {
  if (flags.plan.empty()) fail(ErrorCode::kUsage, "--plan is missing: a file that `millrace plan --out` wrote");
  if (flags.check) return check_plan(flags);
  if (flags.resources) return tell_resources(flags);
  if (flags.out.empty())
    fail(ErrorCode::kUsage, "--out is missing: the folder for the device's files (or --resources, for what they take alone)");
  const Plan plan = load_plan(flags.plan);
  const Graph graph(plan.model);
  require_fpga(plan, flags.device);
  const LayerFormats formats = wanted_formats(flags, plan);
  const bool steps = plans_steps_on_boards(plan);
  if (steps || plan.purpose == Purpose::kInference) {
    if (flags.device >= plan.devices())
      fail(ErrorCode::kUsage, "--device {}: the plan has devices 0 to {}", flags.device, plan.devices() - 1);
    const WeightSource weights = weight_source(flags, graph);
    const std::vector<std::string> layers =
        steps ? write_steps_engines(plan, graph, flags.device, weights, formats, flags.out, flags.seed)
              : write_inference_engines(plan, graph, flags.device, weights, formats, flags.out, flags.seed);
    if (flags.json)
      fmt::print("{}\n", nlohmann::ordered_json({{"folder", flags.out}, {"engines", layers}}).dump(2));
    else
      for (const std::string& layer : layers)
        fmt::print("{}/{}: check it: iverilog -g2012 -o testbench rtl/*.sv testbench.sv && vvp testbench\n", flags.out, layer);
    return 0;
  }
  const DeviceDesign design = device_design(plan, graph, flags.device, weight_source(flags, graph), formats);
  require_own_folder(flags.out, design.module_name());
  const std::string lacks = warn_of_size(design, plan);
  const std::string homes = warn_of_homes(plan, flags.device);
  DeviceFiles files = write_device(design, flags.out, {.test_rows = flags.test_rows, .seed = flags.seed, .homes = homes, .lacks = lacks});
  const std::string resources = resources_json(hardware_use(design), plan);
  write_atomically(std::filesystem::path(flags.out) / "resources.json", std::string_view(resources));
  files.names.push_back("resources.json");
  files.bytes += static_cast<int64_t>(resources.size());
  if (flags.json) {
    nlohmann::ordered_json shards = nlohmann::ordered_json::array();
    for (const ShardDesign& shard : design.shards)
      shards.push_back({{"layer", shard.layer},
                        {"begin", shard.inputs.begin},
                        {"end", shard.inputs.end},
                        {"outputs_begin", shard.outputs.begin},
                        {"outputs_end", shard.outputs.end},
                        {"tiles", shard.engine.tiles()},
                        {"input_lanes", shard.engine.input_lanes},
                        {"output_lanes", shard.engine.output_lanes},
                        {"multipliers", shard.engine.tiles() * shard.engine.taps()},
                        {"planned_multipliers", shard.planned_multipliers}});
    const nlohmann::ordered_json result = {{"module", design.module_name()},
                                           {"folder", flags.out},
                                           {"files", files.names},
                                           {"bytes", files.bytes},
                                           {"lanes", design.lanes},
                                           {"test_rows", files.test_rows},
                                           {"formats", formats.empty() ? "engine" : "calibrated"},
                                           {"weights_saturated", design.weights_quantised.saturated},
                                           {"shards", shards},
                                           {"parameters_stored_elsewhere", parameter_homes(plan, flags.device).stored_elsewhere},
                                           {"parameters_stored_for_others", parameter_homes(plan, flags.device).stored_for_others},
                                           {"resources", nlohmann::ordered_json::parse(resources)}};
    fmt::print("{}\n", result.dump(2));
    return 0;
  }
  fmt::print("{}: {} files in {} ({})\n", design.module_name(), files.names.size(), flags.out, bytes_text(files.bytes));
  for (const ShardDesign& shard : design.shards)
    fmt::print("  {:<20} {}, {} x {} lanes of {} x {} (planned for {} multipliers, built with {} per phase)\n", shard.layer,
               shard.channels_text(), shard.engine.input_lanes, shard.engine.output_lanes, shard.engine.kernel, shard.engine.kernel,
               shard.planned_multipliers, shard.engine.tiles() * shard.engine.taps());
  fmt::print("{}", resources_table(hardware_use(design), plan));
  fmt::print("  formats: {} (README.md has them by layer)\n", formats.empty() ? "the engine's own" : "the run's, calibrated");
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
      "  millrace rtl --plan plan.textproto --device 0 --weights runs/digits --test-rows 8 --out rtl/device_0\n"
      "  millrace rtl --plan plan.textproto --device 1 --resources\n"
      "  millrace rtl --plan plan.textproto --check\n");
  not_empty(command->add_option("--plan", flags->plan, "plan.textproto"));
  whole(command->add_option("--device", flags->device, "which device of the ring [0]"), 0);
  not_empty(command->add_option("--out", flags->out, "the folder for the device's files"));
  not_empty(command->add_option("--weights", flags->weights, "a run, a checkpoint or a .safetensors file [fresh ones of --seed]"));
  not_empty(command->add_option("--formats", flags->formats, "fraction bits by layer [the formats.txt of --weights' run, if it has one]"));
  whole(command->add_option("--test-rows", flags->test_rows, "rows of the testbench's maps [as few as every layer needs]"), 1);
  whole(command->add_option("--seed", flags->seed, "of fresh weights and of the testbench's stimuli [1]"), 0, UINT64_MAX);
  command->add_flag("--resources", flags->resources, "tell what the device takes, by layer and module, and write nothing");
  command->add_flag(
      "--check", flags->check,
      "tell of every device whether it is generated, and of what is built its multipliers, pace and resources beside the plan's");
  command->add_flag("--json", flags->json, "JSON on standard output");
  command->callback([command, flags, &invocation] {
    for (const CLI::Option* option : command->parse_order()) flags->given.push_back(option->get_name());
    invocation.json = flags->json;
    invocation.run = [flags] { return write_rtl(*flags); };
  });
}

}  // namespace millrace
