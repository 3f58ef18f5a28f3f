// `millrace eval`, `predict` and `export`: what a checkpoint knows, on data, and its weights for other programs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <variant>

#include "core/base/error.h"
#include "core/data/text.h"
#include "core/decode/ctc.h"
#include "core/plan/assemble.h"
#include "core/train/evaluate.h"
#include "core/train/segment_state.h"
#include "deploy/command/command.h"
#include "deploy/command/device_registry.h"
#include "deploy/command/flag_checks.h"

namespace millrace {
namespace {

struct CheckpointFlags {
  std::string checkpoint, data, cluster = "cpu", safetensors;
  std::string split = "test";
  int64_t micro_batch = 32;
  int64_t count = 10;
  int64_t beam = 0;
  int threads = 1;
  bool json = false;
};

// A checkpoint brought to life on one device, and the data it is asked about.
struct Loaded {
  Loaded(const CheckpointFlags& flags) : content(load_checkpoint(flags.checkpoint)) {
    std::string name = flags.data;
    if (name.empty()) {
      const auto found = content.facts.attributes.find("data");
      if (found == content.facts.attributes.end()) fail(ErrorCode::kUsage, "the checkpoint does not name its data; give --data");
      name = found->second;
    }
    data = load_data(name);
    const Model model = parse_model(content.model_text, "model.textproto");
    cut_to(data, model);
    if (model.input_kind == InputKind::kTokens) limit_vocabulary(data, Graph(model).classes());
    AdaptedModel adapted = adapt(model, form_of(data.test));
    if (!(adapted.model == model))
      fail(ErrorCode::kMismatch,
           "the checkpoint's network takes {} and tells {} classes apart, {} has {} and {} classes; choose other --data",
           text_of(model.input), Graph(model).classes(), data.test.name, text_of(data.test.shape), data.test.classes);
    transform = adapted.transform;
    graph = std::make_unique<Graph>(model);
    PlanRequest request;
    request.cluster = find_cluster(flags.cluster);
    if (request.cluster.devices.size() != 1)
      fail(ErrorCode::kUsage, "--cluster {}: {} devices, but a checkpoint is asked on one; name one, such as cpu", flags.cluster,
           request.cluster.devices.size());
    request.mini_batch = request.micro_batch = flags.micro_batch;
    request.optimizer.kind = OptimizerKind::kSgd;
    plan = single_device_plan(*graph, request);
    device = open_device(plan.cluster.devices.front().device, {.threads = flags.threads});
    segment = std::make_unique<SegmentExecutor>(plan, *graph, 0, *device);
    write_weights(*segment, *graph, content.weights);
  }

  const Dataset& part(const CheckpointFlags& flags) const {
    if (flags.split == "train") return data.train;
    if (flags.split == "test") return data.test;
    fail(ErrorCode::kUsage, "--split \"{}\" is unknown{}", flags.split, suggestion(flags.split, {"test", "train"}));
  }

  CheckpointContent content;
  DataSplit data;
  DataTransform transform;
  std::unique_ptr<Graph> graph;
  Plan plan;
  std::unique_ptr<Device> device;
  std::unique_ptr<SegmentExecutor> segment;
};

int eval(const CheckpointFlags& flags) {
  Loaded loaded(flags);
  const Dataset& data = loaded.part(flags);
  if (flags.beam > 0 && data.label_form != LabelForm::kRow)
    fail(ErrorCode::kUsage, "--beam has no effect: {} has no rows of labels to search for; leave it out", data.name);
  const SequenceEvaluation result =
      evaluate_fully(*loaded.segment, *loaded.graph, loaded.plan, data, loaded.transform, {.beam = flags.beam});
  if (flags.json) {
    nlohmann::ordered_json line = {{"event", "evaluation"},           {"step", loaded.content.facts.step},
                                   {"loss", result.basic.loss},       {"accuracy", result.basic.accuracy},
                                   {"samples", result.basic.samples}, {"seconds", result.basic.seconds}};
    if (result.bits_per_character) line["bits_per_character"] = *result.bits_per_character;
    if (result.step_accuracy) line["step_accuracy"] = *result.step_accuracy;
    if (result.character_error_rate) line["character_error_rate"] = *result.character_error_rate;
    fmt::print("{}\n", line.dump());
    return 0;
  }
  std::string more;
  if (result.bits_per_character)
    more = fmt::format(", {:.3f} bits per character, {:.2f}% of all steps right", *result.bits_per_character, 100 * *result.step_accuracy);
  if (result.character_error_rate) more = fmt::format(", character error rate {:.2f}%", 100 * *result.character_error_rate);
  fmt::print("{} at step {}: accuracy {:.2f}% of {} samples of {}, loss {:.4f}{} ({:.2f} s, measured)\n", loaded.graph->model().name,
             loaded.content.facts.step, 100 * result.basic.accuracy, result.basic.samples, data.name, result.basic.loss, more,
             result.basic.seconds);
  return 0;
}

std::string class_name(const Dataset& data, int64_t index) {
  return data.class_names.empty() ? fmt::format("{}", index) : data.class_names[static_cast<size_t>(index)];
}

// Rows of labels as people read them: characters side by side, other classes apart.
std::string spelled(const Dataset& data, std::span<const int32_t> labels) {
  std::string text;
  for (const int32_t label : labels) {
    const std::string name = class_name(data, label);
    if (data.class_names.empty() && !text.empty()) text += ' ';
    text += name == "space" ? " " : name;
  }
  return text;
}

// What the network says of one sample, and what was right.
struct Saying {
  std::string predicted, label;
  double probability = -1;  // of the prediction; -1: a row of labels, which has none
};

Saying saying_of(const SampleResult& result, const Dataset& data, int64_t blank, int64_t beam) {
  if (data.label_form == LabelForm::kRow) {
    const CtcScores scores{result.scores, result.classes, result.positions_each, result.positions, blank};
    const std::span<const int32_t> row(result.labels.begin(), std::ranges::find(result.labels, kNoLabel));
    return {spelled(data, beam > 0 ? beam_search(scores, beam).labels : best_path(scores)), spelled(data, row)};
  }
  const int64_t position = result.positions_each - 1;  // of a text, the character behind the last
  const int64_t predicted = result.best_class(position);
  const auto score = [&](int64_t c) {
    return static_cast<double>(result.scores[static_cast<size_t>(c * result.positions_each + position)]);
  };
  double sum = 0;
  for (int64_t c = 0; c < result.classes; ++c) sum += std::exp(score(c) - score(predicted));
  return {class_name(data, predicted), class_name(data, result.labels.back()), 1 / sum};
}

int64_t blank_of(const Graph& graph) {
  const auto* ctc = graph.loss() < 0 ? nullptr : std::get_if<CtcLoss>(&graph.node(graph.loss()).layer.operation);
  return ctc == nullptr ? 0 : ctc->blank;
}

int predict(const CheckpointFlags& flags) {
  Loaded loaded(flags);
  const Dataset& data = loaded.part(flags);
  const bool rows = data.label_form == LabelForm::kRow;
  if (flags.beam > 0 && !rows)
    fail(ErrorCode::kUsage, "--beam has no effect: {} has no rows of labels to search for; leave it out", data.name);
  if (!flags.json && !rows) fmt::print("{:>8}  {:<16} {:<16} {}\n", "sample", "predicted", "label", "probability");
  int64_t shown = 0;
  int64_t right = 0;
  const auto show = [&](const SampleResult& result) {
    const Saying saying = saying_of(result, data, blank_of(*loaded.graph), flags.beam);
    const bool is_right = saying.predicted == saying.label;
    right += is_right ? 1 : 0;
    if (flags.count > 0 && shown++ >= flags.count) return;
    if (flags.json) {
      nlohmann::ordered_json line = {{"sample", result.sample}};
      if (rows || data.sequences) {
        line["predicted"] = saying.predicted, line["label"] = saying.label;
      } else {
        line["predicted"] = result.best_class(0), line["label"] = result.labels[0];
      }
      if (!rows) line["probability"] = saying.probability;
      fmt::print("{}\n", line.dump());
    } else if (rows) {
      fmt::print("{}  {}\n  said    {}\n  label   {}\n", data.sequences->name_of(result.sample), is_right ? "right" : "wrong",
                 saying.predicted, saying.label);
    } else {
      fmt::print("{:>8}  {:<16} {:<16} {:.4f}{}\n", result.sample, saying.predicted, saying.label, saying.probability,
                 is_right ? "" : "   wrong");
    }
  };
  evaluate_fully(*loaded.segment, *loaded.graph, loaded.plan, data, loaded.transform, {}, show);
  if (!flags.json) fmt::print("{} of {} right\n", right, data.size());
  return 0;
}

int export_weights(const CheckpointFlags& flags) {
  if (flags.safetensors.empty()) fail(ErrorCode::kUsage, "say where to: --safetensors FILE");
  const CheckpointContent content = load_checkpoint(flags.checkpoint);
  save_safetensors(flags.safetensors, {content.weights, {{"format", "pt"}, {"step", std::to_string(content.facts.step)}}});
  fmt::print("{}: {} tensors of step {}\n", flags.safetensors, content.weights.size(), content.facts.step);
  return 0;
}

template <typename Run>
void finish(CLI::App* command, const std::shared_ptr<CheckpointFlags>& flags, Invocation& invocation, Run run) {
  command->callback([flags, &invocation, run] {
    invocation.json = flags->json;
    invocation.run = [flags, run] { return run(*flags); };
  });
}

void add_data_flags(CLI::App* command, const std::shared_ptr<CheckpointFlags>& flags) {
  not_empty(command->add_option("--checkpoint", flags->checkpoint, "a checkpoint, or a run's folder for its newest")->required());
  not_empty(command->add_option("--data", flags->data, "as for train [what the checkpoint was trained on]"));
  command->add_option("--split", flags->split, "test or train [test]");
  not_empty(command->add_option("--cluster", flags->cluster, "the device [cpu]"));
  whole(command->add_option("--micro-batch", flags->micro_batch, "samples at a time [32]"), 1);
  whole(command->add_option("--threads", flags->threads, "[1]"), 1, 4096);
  whole(command->add_option("--beam", flags->beam, "prefixes that reading a CTC network's labels keeps [0: its best path]"), 0, 4096);
}

}  // namespace

void add_eval_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* command = app.add_subcommand("eval", "loss and accuracy of a checkpoint on a data set");
  command->footer("\nExample:\n  millrace eval --checkpoint runs/digits\n");
  add_data_flags(command, flags);
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  finish(command, flags, invocation, eval);
}

void add_predict_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* command = app.add_subcommand("predict", "what a checkpoint says about single samples");
  command->footer("\nExample:\n  millrace predict --checkpoint runs/digits --count 5\n");
  add_data_flags(command, flags);
  whole(command->add_option("--count", flags->count, "samples to show; 0: all [10]"), 0);
  command->add_flag("--json", flags->json, "one JSON object per sample on standard output");
  finish(command, flags, invocation, predict);
}

void add_export_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* command = app.add_subcommand("export", "a checkpoint's weights for other programs");
  command->footer("\nExample:\n  millrace export --checkpoint runs/digits --safetensors digits.safetensors\n");
  not_empty(command->add_option("--checkpoint", flags->checkpoint, "a checkpoint, or a run's folder for its newest")->required());
  not_empty(command->add_option("--safetensors", flags->safetensors, "file to write; PyTorch's names and order"));
  finish(command, flags, invocation, export_weights);
}

}  // namespace millrace
