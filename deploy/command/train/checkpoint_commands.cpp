// `millrace eval`, `predict` and `export`: what a checkpoint knows, on data, and its weights for other programs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <variant>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/data/text.h"
#include "core/decode/ctc.h"
#include "core/exchange/onnx_export.h"
#include "core/graph/frozen_model.h"
#include "core/plan/assemble.h"
#include "core/plan/validate.h"
#include "core/train/evaluate.h"
#include "core/train/segment_state.h"
#include "core/train/torch_names.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/train/inference_figures.h"
#include "deploy/command/train/predict_files.h"
#include "deploy/devices/device_registry.h"
#include "deploy/session/ring_devices.h"
#include "deploy/session/run_formats.h"
#include "node/ring/ring_evaluator.h"
#include "node/ring/together.h"
#include "transport/local/local_wire.h"
#include "transport/mpi/mpi_session.h"
#include "transport/mpi/mpi_wire.h"

namespace millrace {
namespace {

struct CheckpointFlags {
  std::string checkpoint, data, cluster = "cpu", plan, safetensors, onnx;
  std::string split = "test";
  int64_t micro_batch = 32;
  int64_t count = 10;
  int64_t beam = 0;
  bool cluster_given = false;
  int threads = 1;
  bool json = false;
  double frame_rate = 0;  // of each sequence; 0: its steps are all there
  bool last_weights = false;
  FilePredictionFlags of_files;  // predict alone
};

WhichWeights which_weights(const CheckpointFlags& flags) { return flags.last_weights ? WhichWeights::kLast : WhichWeights::kAverage; }

void add_weights_flag(CLI::App* command, CheckpointFlags& flags) {
  command->add_flag("--last-weights", flags.last_weights, "of a training with --ema: the weights themselves instead of their average");
}

// What a checkpoint is asked: its weights, the samples, and the ring that computes. The same on every rank.
struct Question {
  explicit Question(const CheckpointFlags& flags) : content(load_checkpoint(flags.checkpoint, which_weights(flags))) {
    std::string name = flags.data;
    if (name.empty()) {
      const auto found = content.facts.attributes.find("data");
      if (found == content.facts.attributes.end()) fail(ErrorCode::kUsage, "the checkpoint does not name its data; give --data");
      name = found->second;
    }
    if (flags.split != "train" && flags.split != "test")
      fail(ErrorCode::kUsage, "--split \"{}\" is unknown{}", flags.split, suggestion(flags.split, {"test", "train"}));
    task.data = load_data(name);
    const Model model = parse_model(content.model_text, "model.textproto");
    cut_to(task.data, model);
    if (model.input_kind == InputKind::kTokens) limit_vocabulary(task.data, Graph(model).classes());
    AdaptedModel adapted = adapt(model, form_of(task.data.test));
    const Dataset& test = task.data.test;
    if (!(adapted.model == model))
      fail(ErrorCode::kMismatch,
           "the checkpoint's network takes {} and tells {} classes apart, {} has {} and {} classes; choose other --data",
           text_of(model.input), Graph(model).classes(), test.name, text_of(test.shape), test.classes);
    task.transform = adapted.transform;
    task.graph = std::make_unique<Graph>(model);
    // Whatever is asked about is what an evaluation takes.
    if (flags.split == "train") std::swap(task.data.train, task.data.test);
    if (flags.beam > 0 && data().label_form != LabelForm::kRow)
      fail(ErrorCode::kUsage, "--beam has no effect: {} has no rows of labels to search for; leave it out", data().name);
    find_plan(flags, model);
    if (const std::string file = formats_file_of(flags.checkpoint); !file.empty()) formats = formats_from(file, model);
  }

  const Dataset& data() const { return task.data.test; }

  CheckpointContent content;
  TrainingTask task;
  LayerFormats formats;  // of the checkpoint's run, where it was calibrated

 private:
  // Others in the plan's places: the same shards, flows and bits of every device.
  void compute_on(const Cluster& cluster) {
    if (cluster.devices.size() != task.plan.cluster.devices.size())
      fail(ErrorCode::kUsage, "--cluster has {} devices and the plan {}: give one for each", cluster.devices.size(),
           task.plan.cluster.devices.size());
    for (size_t i = 0; i < cluster.devices.size(); ++i) task.plan.cluster.devices[i].device = cluster.devices[i].device;
    if (!task.plan.cluster_digest.empty()) task.plan.cluster_digest = digest_of(text_of(task.plan.cluster));
  }

  void find_plan(const CheckpointFlags& flags, const Model& model) {
    if (!flags.plan.empty()) {
      task.plan = load_plan(flags.plan);
      // Whether parameters are trained makes no other network.
      if (!(frozen_model(task.plan.model) == frozen_model(model)))
        fail(ErrorCode::kMismatch, "{}: a plan for model \"{}\", but the checkpoint is one of \"{}\", and they differ; plan again for it",
             flags.plan, task.plan.model.name, model.name);
      task.graph = std::make_unique<Graph>(task.plan.model);
      inference_figures(task.plan, *task.graph, flags.frame_rate);  // what is wrong with its engines is said before anything is computed
      if (flags.cluster_given) compute_on(find_cluster(flags.cluster));
    }
    if (flags.frame_rate > 0 && task.plan.purpose != Purpose::kInference)
      fail(ErrorCode::kUsage, "--frame-rate has no effect without a --plan for inference; leave it out");
    if (!flags.plan.empty()) return;
    Job& job = task.job;
    job.cluster = flags.cluster;
    job.mini_batch = job.micro_batch = std::min(flags.micro_batch, std::max<int64_t>(1, data().size()));
    job.optimizer.kind = OptimizerKind::kSgd;  // nothing is updated: no state
    if (std::optional<Plan> plan = plan_for_job(*task.graph, job)) {
      task.plan = std::move(*plan);
      return;
    }
    PlanRequest request;
    request.cluster = find_cluster(flags.cluster);
    request.mini_batch = request.micro_batch = job.micro_batch;
    request.optimizer = job.optimizer;
    task.plan = single_device_plan(*task.graph, request);
  }
};

// What comes of it, where samples are scored: the text that rank 0 says.
struct Answer {
  SampleVisitor visit;  // may be empty
  std::function<std::string(const SequenceEvaluation& evaluation)> told = {};
};
using MakeAnswer = std::function<Answer(const Question&)>;

void ask_ring(const CheckpointFlags& flags, std::unique_ptr<Wire> wire, const MakeAnswer& make_answer) {
  const DeviceOptions device_options{.threads = flags.threads};
  std::optional<Question> question;
  std::exception_ptr unprepared;
  // Before anybody talks: devices that take long to prepare, while nobody waits.
  try {
    question.emplace(flags);
  } catch (const Error& error) {  // the others have it, too
    throw SharedError(error.code(), error.what());
  }
  const TrainingTask& task = question->task;
  try {
    prepare_ring_devices(task.plan, wire->rank(), device_options);
  } catch (const Error&) {
    unprepared = std::current_exception();
  }
  Transport transport(std::move(wire));
  Agreement agreement(transport);
  together(agreement, "preparing the devices", [&] {
    if (unprepared) std::rethrow_exception(unprepared);
  });
  if (transport.rank() == 0) {
    warn_of_threads(flags.threads);
    for (const std::string& note : notes_on_devices(task.plan, device_options)) log::info("{}", note);
  }
  const Answer answer = make_answer(*question);
  EvaluationSum sum(*task.graph, question->data(), task.plan.micro_batch, {.beam = flags.beam}, answer.visit);
  RingEvaluator evaluator(task, transport, agreement, [&](int64_t index) {
    return with_formats(open_ring_device(task.plan, index, device_options), question->formats);
  });
  const auto started = std::chrono::steady_clock::now();
  const Score score =
      evaluator.run(question->content.weights, [&](SegmentExecutor& segment, const Batch& loaded) { sum.add(segment, loaded); });
  SequenceEvaluation evaluation = sum.finish(score);
  evaluation.basic.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const int64_t teller = evaluator.rank_of_scores();
  const std::vector<std::string> told = agreement.gather("what was found", transport.rank() == teller ? answer.told(evaluation) : "");
  agreement.close();
  if (transport.rank() == 0) fmt::print("{}", item(told, teller));
}

// Alone, or as one of mpirun's ranks.
int ask(const CheckpointFlags& flags, const MakeAnswer& make_answer) {
  if (!MpiSession::launched()) {
    ask_ring(flags, make_loopback_wire(0, 1), make_answer);
    return 0;
  }
  return run_with_mpi({}, [&](MpiSession& session) {
    try {
      ask_ring(flags, make_ring_wire(session.world()), make_answer);
    } catch (const SharedError&) {
      MpiSession::wait_for_first_rank();
      throw;
    }
    return 0;
  });
}

// What the plan promises and what was measured, apart; nothing of plans that train.
void add_figures(const CheckpointFlags& flags, const Question& question, const Evaluation& measured, nlohmann::ordered_json& line) {
  const auto modelled = inference_figures(question.task.plan, *question.task.graph, flags.frame_rate);
  if (!modelled) return;
  line["modelled"] = json_of(*modelled);
  line["measured"] = {{"seconds", measured.seconds},
                      {"sequences_per_second", static_cast<double>(measured.samples) / measured.seconds},
                      {"origin", "this machine, which computes what the plan's devices would"}};
}
std::string modelled_text(const CheckpointFlags& flags, const Question& question) {
  const auto modelled = inference_figures(question.task.plan, *question.task.graph, flags.frame_rate);
  return modelled ? text_of(*modelled) : "";
}

std::string text_of_evaluation(const CheckpointFlags& flags, const Question& question, const SequenceEvaluation& result) {
  const int64_t step = question.content.facts.step;
  if (flags.json) {
    nlohmann::ordered_json line = {{"event", "evaluation"},           {"step", step},
                                   {"loss", result.basic.loss},       {"accuracy", result.basic.accuracy},
                                   {"samples", result.basic.samples}, {"seconds", result.basic.seconds}};
    if (result.bits_per_character) line["bits_per_character"] = *result.bits_per_character;
    if (result.step_accuracy) line["step_accuracy"] = *result.step_accuracy;
    if (result.character_error_rate) line["character_error_rate"] = *result.character_error_rate;
    add_figures(flags, question, result.basic, line);
    return line.dump() + "\n";
  }
  std::string more;
  if (result.bits_per_character)
    more = fmt::format(", {:.3f} bits per character, {:.2f}% of all steps right", *result.bits_per_character, 100 * *result.step_accuracy);
  if (result.character_error_rate) more = fmt::format(", character error rate {:.2f}%", 100 * *result.character_error_rate);
  return fmt::format("{} at step {}: accuracy {:.2f}% of {} samples of {}, loss {:.4f}{} ({:.2f} s, measured)\n{}",
                     question.task.graph->model().name, step, 100 * result.basic.accuracy, result.basic.samples, question.data().name,
                     result.basic.loss, more, result.basic.seconds, modelled_text(flags, question));
}

int eval(const CheckpointFlags& flags) {
  return ask(flags, [&flags](const Question& question) {
    return Answer{.visit = {}, .told = [&](const SequenceEvaluation& result) { return text_of_evaluation(flags, question, result); }};
  });
}

std::string class_name(const Dataset& data, int64_t index) {
  return data.class_names.empty() ? fmt::format("{}", index) : item(data.class_names, index);
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
  const auto score = [&](int64_t c) { return static_cast<double>(item(result.scores, c * result.positions_each + position)); };
  double sum = 0;
  for (int64_t c = 0; c < result.classes; ++c) sum += std::exp(score(c) - score(predicted));
  return {class_name(data, predicted), class_name(data, result.labels.back()), 1 / sum};
}

int64_t blank_of(const Graph& graph) {
  const auto* ctc = graph.loss() < 0 ? nullptr : std::get_if<CtcLoss>(&graph.node(graph.loss()).layer.operation);
  return ctc == nullptr ? 0 : ctc->blank;
}

// The lines of `millrace predict`, sample by sample.
class Sayings {
 public:
  Sayings(const CheckpointFlags& flags, const Question& question)
      : flags_(flags), data_(question.data()), blank_(blank_of(*question.task.graph)), rows_(data_.label_form == LabelForm::kRow) {
    if (!flags.json && !rows_) text_ = fmt::format("{:>8}  {:<16} {:<16} {}\n", "sample", "predicted", "label", "probability");
  }

  void add(const SampleResult& result) {
    const Saying saying = saying_of(result, data_, blank_, flags_.beam);
    const bool is_right = saying.predicted == saying.label;
    right_ += is_right ? 1 : 0;
    if (flags_.count > 0 && shown_++ >= flags_.count) return;
    if (flags_.json) {
      nlohmann::ordered_json line = {{"sample", result.sample}};
      if (rows_ || data_.sequences) {
        line["predicted"] = saying.predicted, line["label"] = saying.label;
      } else {
        line["predicted"] = result.best_class(0), line["label"] = result.labels[0];
      }
      if (!rows_) line["probability"] = saying.probability;
      text_ += line.dump() + "\n";
    } else if (rows_) {
      text_ += fmt::format("{}  {}\n  said    {}\n  label   {}\n", data_.sequences->name_of(result.sample), is_right ? "right" : "wrong",
                           saying.predicted, saying.label);
    } else {
      text_ += fmt::format("{:>8}  {:<16} {:<16} {:.4f}{}\n", result.sample, saying.predicted, saying.label, saying.probability,
                           is_right ? "" : "   wrong");
    }
  }

  std::string text() const { return flags_.json ? text_ : text_ + fmt::format("{} of {} right\n", right_, data_.size()); }

 private:
  const CheckpointFlags& flags_;
  const Dataset& data_;
  int64_t blank_;
  bool rows_;
  std::string text_;
  int64_t shown_ = 0;
  int64_t right_ = 0;
};

int predict_files_with(const CheckpointFlags& flags) {
  if (!flags.data.empty()) fail(ErrorCode::kUsage, "--data and --files both say what to ask about; leave one out");
  if (!flags.plan.empty() || MpiSession::launched())
    fail(ErrorCode::kUsage, "files are asked about on one device; leave out {}", flags.plan.empty() ? "mpirun" : "--plan");
  FilePredictionFlags of_files = flags.of_files;
  of_files.checkpoint = flags.checkpoint;
  of_files.cluster = flags.cluster;
  of_files.micro_batch = flags.micro_batch;
  of_files.threads = flags.threads;
  of_files.json = flags.json;
  of_files.last_weights = flags.last_weights;
  if (of_files.json && of_files.csv) fail(ErrorCode::kUsage, "--json and --csv: choose one");
  return predict_files(of_files);
}

int predict(const CheckpointFlags& flags) {
  if (!flags.of_files.files.empty()) return predict_files_with(flags);
  if (flags.of_files.csv || flags.of_files.top != 1 || flags.of_files.damaged_is_fatal)
    fail(ErrorCode::kUsage, "--csv, --top and --damaged-fails have no effect without --files; leave them out");
  return ask(flags, [&flags](const Question& question) {
    const auto sayings = std::make_shared<Sayings>(flags, question);
    return Answer{.visit = [sayings](const SampleResult& result) { sayings->add(result); },
                  .told =
                      [&, sayings](const SequenceEvaluation& result) {
                        nlohmann::ordered_json last = {{"event", "prediction"}, {"samples", result.basic.samples}};
                        add_figures(flags, question, result.basic, last);
                        if (flags.json) return sayings->text() + (last.contains("modelled") ? last.dump() + "\n" : "");
                        return sayings->text() + modelled_text(flags, question);
                      }};
  });
}

int export_weights(const CheckpointFlags& flags) {
  if (flags.safetensors.empty() && flags.onnx.empty()) fail(ErrorCode::kUsage, "say where to: --safetensors FILE or --onnx FILE");
  const CheckpointContent content = load_checkpoint(flags.checkpoint, which_weights(flags));
  const Model model = parse_model(content.model_text, "model.textproto");
  if (!flags.onnx.empty()) {
    export_onnx(Graph(model), content.weights, flags.onnx);
    fmt::print("{}: {} layers of step {}\n", flags.onnx, model.layers.size(), content.facts.step);
  }
  if (flags.safetensors.empty()) return 0;
  const TensorMap named = with_torch_names(model, content.weights);
  save_safetensors(flags.safetensors,
                   {named, {{"format", "pt"}, {"step", std::to_string(content.facts.step)}, {"model", content.model_text}}});
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
  add_weights_flag(command, *flags);
  command->add_option("--split", flags->split, "test or train [test]");
  auto* cluster = command->add_option("--cluster", flags->cluster, "devices, as for train; alone or under mpirun [cpu]");
  not_empty(cluster);
  auto* micro_batch = command->add_option("--micro-batch", flags->micro_batch, "samples at a time [32]");
  whole(micro_batch, 1);
  not_empty(command->add_option("--plan", flags->plan, "plan.textproto of the checkpoint's model; with --cluster on other devices, as many")
                ->excludes(micro_batch));
  real(command->add_option("--frame-rate", flags->frame_rate,
                           "of --plan, one for inference: steps per second that each sequence brings [all of them are there]"),
       Least::kAboveZero);
  cluster->each([flags](const std::string&) { flags->cluster_given = true; });
  whole(command->add_option("--threads", flags->threads, "[1]"), 1, 4096);
  whole(command->add_option("--beam", flags->beam, "prefixes that reading a CTC network's labels keeps [0: its best path]"), 0, 4096);
}

}  // namespace

void add_eval_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* command = app.add_subcommand("eval", "loss and accuracy of a checkpoint on a data set");
  command->footer(
      "\nExamples:\n  millrace eval --checkpoint runs/digits\n  mpirun -n 2 millrace eval --checkpoint runs/digits --cluster cpux4\n"
      "      on a ring of four devices, two on each rank; the same plan gives the same bits on any number of ranks\n");
  add_data_flags(command, flags);
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  finish(command, flags, invocation, eval);
}

void add_predict_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* command = app.add_subcommand("predict", "what a checkpoint says about single samples");
  command->footer(
      "\nExamples:\n  millrace predict --checkpoint runs/digits --count 5\n"
      "  millrace predict --checkpoint runs/flowers --files rose.jpg holiday/ --top 3\n");
  add_data_flags(command, flags);
  command->add_option("--files", flags->of_files.files, "pictures, folders of pictures, and .npy files of samples, instead of --data");
  whole(command->add_option("--top", flags->of_files.top, "of --files: so many classes, the likeliest first [1]"), 1, 1000);
  command->add_flag("--csv", flags->of_files.csv, "of --files: comma-separated lines");
  command->add_flag("--damaged-fails", flags->of_files.damaged_is_fatal,
                    "of --files: end at the first damaged file [it is named and left out]");
  whole(command->add_option("--count", flags->count, "samples to show; 0: all [10]"), 0);
  command->add_flag("--json", flags->json, "one JSON object per sample on standard output");
  finish(command, flags, invocation, predict);
}

void add_export_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* command = app.add_subcommand("export", "a checkpoint's weights for other programs");
  command->footer("\nExample:\n  millrace export --checkpoint runs/digits --safetensors digits.safetensors\n");
  not_empty(command->add_option("--checkpoint", flags->checkpoint, "a checkpoint, or a run's folder for its newest")->required());
  add_weights_flag(command, *flags);
  not_empty(command->add_option("--safetensors", flags->safetensors, "file to write; PyTorch's names and order"));
  not_empty(command->add_option("--onnx", flags->onnx, "file to write: the network and its weights, opset 13"));
  finish(command, flags, invocation, export_weights);
}

}  // namespace millrace
