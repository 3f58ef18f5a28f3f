// `millrace train`: a job, from its file and flags, trained on the devices of its plan.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/field_kinds.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/graph/norm_statistics.h"
#include "core/plan/rings_side_by_side.h"
#include "core/train/evaluation_judge.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/line/usage_error.h"
#include "deploy/command/train/train_words.h"
#include "deploy/session/accounting.h"
#include "deploy/session/job_paths.h"
#include "deploy/session/quantities.h"
#include "deploy/session/ring_deal.h"
#include "deploy/session/ring_devices.h"
#include "deploy/session/ring_flags.h"
#include "deploy/session/ring_links.h"
#include "deploy/session/train_run.h"
#include "deploy/session/word_meaning.h"

namespace millrace {
namespace {

constexpr const char* kTrainExamples = R"(
Examples:
  millrace train --model digits-cnn --data digits --epochs 20 --out runs/digits
      the shipped handwritten digits, a few seconds; the run's folder holds metrics and checkpoints
  millrace train --model fashion-cnn --data fashion-mnist --epochs 8 --learning-rate 0.015 --lr-schedule cosine
      60,000 images from the Debian package dataset-fashion-mnist
  millrace train --model vgg16-cifar --data synthetic:3x32x32:10:2000 --mini-batch 128 --micro-batch 32 --dry-run
      memory and time per epoch before anything is trained
  millrace train --model char-rnn-stateful --data text --optimizer adam --learning-rate 0.002 --clip-norm 5
      characters of the King James Bible; millrace eval tells the bits per character
  millrace train --resume runs/digits --epochs 40
      continues from the newest complete checkpoint, bitwise as if it had never stopped
  millrace train --job job.textproto --seed 7
      everything from a file; a flag overrides it
  mpirun -n 4 millrace train --model lenet5 --data fashion-mnist --cluster cpux4 --alignment fpdeep --epochs 5 --out runs/ring
      a ring of four devices, one on each rank; fewer ranks host several devices and give the same bits
)";

// Every flag that overrides a job's field; unset ones leave the job alone.
struct TrainFlags {
  std::string job_file, resume;
  std::optional<std::string> model, data, cluster, plan, strategy, divide, alignment, accounting, optimizer, schedule, out, init_from,
      time_limit, time_chunks;
  std::optional<double> epochs, learning_rate, momentum, weight_decay, average_decay, warmup, final_rate, clip_norm, clip_value,
      evaluate_every, crop_area;
  std::optional<double> label_smoothing, stop_delta;
  std::optional<int64_t> early_stop;
  std::optional<std::string> keep_best, stop_metric, batch_norm;
  std::vector<double> step_epochs;
  std::optional<int64_t> steps, mini_batch, micro_batch, calibrate, replicas, threads, checkpoint_every, keep, crop;
  std::optional<uint64_t> seed;
  bool recompute = false;
  const CLI::Option* recompute_asked = nullptr;  // it may be asked not to
  bool flip = false;
  bool dry_run = false;
  bool json = false;
  int64_t log_every = 0;
  std::string deal, kernel_table, formats, gpus = "auto", links = "auto", cpu_precision, gpu_precision, gpu_algorithms;
  std::string trace, times, pace;
  std::optional<std::string> deadline;
  bool checksums = false;
  bool shape_links = false;
  bool gpu_graphs = false;
  bool log_samples = false;
  bool measure = false;
};

template <typename T, typename U>
void take(const std::optional<T>& flag, U& field) {
  if (flag) field = *flag;
}

LearningRateKind schedule_from(const std::string& word) {
  return meaning_of<LearningRateKind>("--lr-schedule", word,
                                      {{"constant", LearningRateKind::kConstant},
                                       {"step", LearningRateKind::kStep},
                                       {"cosine", LearningRateKind::kCosine},
                                       {"polynomial", LearningRateKind::kPolynomial}});
}

GpuUse gpu_use_from(const std::string& word) {
  return meaning_of<GpuUse>("--gpus", word, {{"auto", GpuUse::kAuto}, {"required", GpuUse::kRequired}, {"off", GpuUse::kOff}});
}

// Flags of which one would silently win over the other.
void refuse_contradictions(const TrainFlags& flags) {
  const auto exclusive = [](bool first, std::string_view first_name, bool second, std::string_view second_name, std::string_view advice) {
    if (first && second) fail(ErrorCode::kUsage, "{} and {} exclude each other; {}", first_name, second_name, advice);
  };
  exclusive(flags.clip_norm.has_value(), "--clip-norm", flags.clip_value.has_value(), "--clip-value", "choose one");
  exclusive(flags.steps.has_value(), "--steps", flags.epochs.has_value(), "--epochs", "choose one");
  const bool resuming = !flags.resume.empty();
  exclusive(resuming, "--resume", flags.calibrate.has_value(), "--calibrate", "a run keeps the formats in its folder");
  exclusive(resuming, "--resume", !flags.formats.empty(), "--formats", "a run keeps the formats in its folder");
  exclusive(flags.calibrate.has_value(), "--calibrate", !flags.formats.empty(), "--formats", "choose one");
  exclusive(resuming, "--resume", !flags.job_file.empty(), "--job", "a run's folder holds its job, and single flags override it");
  exclusive(resuming, "--resume", flags.out.has_value(), "--out",
            "a run continues in its own folder; for a new one that starts from its weights use --init-from instead of --resume");
  exclusive(resuming, "--resume", flags.init_from.has_value(), "--init-from", "a resumed run has its weights from its checkpoint");
  const std::pair<bool, std::string_view> planned[] = {{flags.model.has_value(), "--model"},
                                                       {flags.cluster.has_value(), "--cluster"},
                                                       {flags.strategy.has_value(), "--strategy"},
                                                       {flags.divide.has_value(), "--divide"},
                                                       {flags.alignment.has_value(), "--alignment"},
                                                       {flags.accounting.has_value(), "--accounting"},
                                                       {flags.mini_batch.has_value(), "--mini-batch"},
                                                       {flags.micro_batch.has_value(), "--micro-batch"},
                                                       {flags.time_chunks.has_value(), "--time-chunks"},
                                                       {flags.recompute_asked->count() > 0, "--recompute"},
                                                       {flags.optimizer.has_value(), "--optimizer"},
                                                       {flags.batch_norm.has_value(), "--batch-norm"},
                                                       {flags.momentum.has_value(), "--momentum"},
                                                       {flags.weight_decay.has_value(), "--weight-decay"},
                                                       {flags.average_decay.has_value(), "--ema"}};
  for (const auto& [given, name] : planned)
    exclusive(flags.plan.has_value(), "--plan", given, name, "the plan already says it; leave one of the two out");
}

// Flags that would change nothing in this job.
void refuse_idle_flags(const TrainFlags& flags, const Job& job) {
  const auto idle = [](std::string_view flag, std::string_view reason) { fail(ErrorCode::kUsage, "{} has no effect: {}", flag, reason); };
  const bool has_momentum = job.optimizer.kind == OptimizerKind::kMomentum || job.optimizer.kind == OptimizerKind::kNesterov;
  if (flags.divide && job.strategy != name_of(Strategy::kKind))
    idle("--divide", "without --strategy kind no layer is divided by kind; add that");
  if (flags.momentum && !has_momentum) idle("--momentum", "only the optimizers momentum and nesterov have one; leave it out");
  const LearningRateKind schedule = job.learning_rate.kind;
  if (!flags.step_epochs.empty() && schedule != LearningRateKind::kStep)
    idle("--lr-steps", "only --lr-schedule step has steps; leave one of the two out");
  if (flags.final_rate && schedule != LearningRateKind::kCosine && schedule != LearningRateKind::kPolynomial)
    idle("--lr-final", "only --lr-schedule cosine and polynomial fall to a last rate; add one of them");
  if (flags.dry_run && !flags.times.empty()) idle("--times-out", "--dry-run trains nothing; leave one of the two out");
  if (job.early_stop.patience == 0) {
    constexpr std::string_view kNoPatience = "nothing stops early; add --early-stop with a number of evaluations";
    if (flags.stop_metric) idle("--early-stop-metric", kNoPatience);
    if (flags.stop_delta) idle("--early-stop-delta", kNoPatience);
  }
  if (flags.keep_best && job.out.empty()) idle("--keep-best", "without --out no checkpoint is written; add it");
  if (flags.log_samples && job.out.empty()) idle("--log-samples", "without --out there is no folder for it; add it");
  if (flags.measure && !job.plan.empty()) idle("--measure", "the plan has its figures already; leave one of the two out");
  if (flags.measure && job.replicas > 1)
    fail(ErrorCode::kUsage, "--measure plans one ring, and --replicas {} makes several; plan with millrace doctor --measure", job.replicas);
  if (flags.log_samples && job.replicas > 1)
    fail(ErrorCode::kUsage, "--log-samples tells of one ring, and --replicas {} makes several; leave one of the two out", job.replicas);
  if (flags.keep && job.out.empty()) idle("--keep", "without --out no checkpoint is written; add it");
}

Job resumed_job(const std::string& folder) {
  const std::filesystem::path file = std::filesystem::path(folder) / "job.textproto";
  if (!std::filesystem::exists(file))
    fail(ErrorCode::kNotFound, "--resume {}: no run to continue, there is no {}; name the --out folder of an earlier training", folder,
         file.string());
  Job job = load_whole_job(file);
  job.out = folder;
  return job;
}

// Each is a place on the way, so their order says nothing; but the same one twice may be a slip for two others.
std::vector<double> ascending(std::vector<double> epochs) {
  std::ranges::sort(epochs);
  const auto twice = std::ranges::adjacent_find(epochs);
  if (twice != epochs.end()) fail(ErrorCode::kUsage, "--lr-steps: epoch {:g} is given twice; the rate drops once at each", *twice);
  return epochs;
}

Job job_of(const TrainFlags& flags) {
  refuse_contradictions(flags);
  Job job;
  if (!flags.resume.empty()) job = resumed_job(flags.resume);
  if (!flags.job_file.empty()) job = load_job_with_files(flags.job_file);
  take(flags.model, job.model);
  take(flags.data, job.data);
  take(flags.cluster, job.cluster);
  take(flags.plan, job.plan);
  if (flags.alignment) job.alignment = alignment_from(*flags.alignment);
  take(flags.epochs, job.epochs);
  if (flags.epochs) job.steps = 0;
  take(flags.steps, job.steps);
  take(flags.mini_batch, job.mini_batch);
  take(flags.micro_batch, job.micro_batch);
  if (flags.time_chunks) job.time_chunks = time_chunks_from(*flags.time_chunks);
  if (flags.recompute_asked->count() > 0) job.recompute = flags.recompute;
  take(flags.strategy, job.strategy);
  take(flags.divide, job.divide);
  // Of strategy kind chunks are what makes two devices work on one layer at once. What is measured or slowed down is whole micro-batches.
  if (!flags.time_chunks && flags.strategy == name_of(Strategy::kKind) && flags.resume.empty() && flags.job_file.empty() &&
      flags.times.empty() && flags.pace.empty())
    job.time_chunks = 0;
  take(flags.seed, job.seed);
  take(flags.replicas, job.replicas);
  // A plan says of how many rings side by side it is one; a run that is resumed has its own number, unless it gets another plan.
  const bool asked_before = flags.resume.empty() ? job.replicas != 1 : !flags.plan;
  if (!job.plan.empty() && !flags.replicas && !asked_before) job.replicas = rings_side_by_side(load_plan(job.plan));
  take(flags.threads, job.threads);
  take(flags.out, job.out);
  take(flags.checkpoint_every, job.checkpoint_every);
  take(flags.keep, job.keep_checkpoints);
  take(flags.evaluate_every, job.evaluate_every_epochs);
  take(flags.init_from, job.init_from);
  if (flags.time_limit) job.time_limit_seconds = parse_duration(*flags.time_limit, "--time-limit");
  if (flags.optimizer) job.optimizer.kind = optimizer_from(*flags.optimizer);
  take(flags.momentum, job.optimizer.momentum);
  take(flags.weight_decay, job.optimizer.weight_decay);
  take(flags.average_decay, job.optimizer.average_decay);
  take(flags.label_smoothing, job.label_smoothing);
  if (flags.batch_norm) job.batch_norm = batch_norm_from(*flags.batch_norm);
  if (flags.keep_best) job.keep_best = evaluation_metric_from(*flags.keep_best, "--keep-best");
  take(flags.early_stop, job.early_stop.patience);
  if (flags.stop_metric) job.early_stop.metric = evaluation_metric_from(*flags.stop_metric, "--early-stop-metric");
  take(flags.stop_delta, job.early_stop.min_delta);
  take(flags.learning_rate, job.learning_rate.base);
  if (flags.schedule) job.learning_rate.kind = schedule_from(*flags.schedule);
  take(flags.warmup, job.learning_rate.warmup_epochs);
  take(flags.final_rate, job.learning_rate.final_rate);
  if (!flags.step_epochs.empty()) {
    job.learning_rate.step_epochs = ascending(flags.step_epochs);
    if (!flags.schedule) job.learning_rate.kind = LearningRateKind::kStep;
  }
  if (flags.clip_norm) job.clip = ClipKind::kGlobalNorm, job.clip_limit = *flags.clip_norm;
  if (flags.clip_value) job.clip = ClipKind::kValue, job.clip_limit = *flags.clip_value;
  take(flags.crop, job.augmentation.crop_padding);
  if (flags.flip) job.augmentation.flip = true;
  take(flags.crop_area, job.augmentation.crop_area);
  refuse_idle_flags(flags, job);
  validate(job);
  return job;
}

int train(const TrainFlags& flags) {
  TrainRequest request;
  if (!flags.resume.empty() || !flags.job_file.empty() || flags.plan)
    request.read_job = [flags] { return job_of(flags); };
  else
    request.job = job_of(flags);
  request.accounting = accounting_of(flags.accounting.value_or(""), Accounting::kFull);
  if (flags.strategy) check_trained(strategy_from(*flags.strategy));
  if (flags.divide) division_from(*flags.divide);
  check_deal(flags.deal);
  request.deal = flags.deal;
  request.resume = flags.resume;
  request.devices = {.kernel_table = flags.kernel_table,
                     .cpu_precision = flags.cpu_precision,
                     .gpus = gpu_use_from(flags.gpus),
                     .gpu_precision = flags.gpu_precision,
                     .gpu_algorithms = flags.gpu_algorithms,
                     .gpu_graphs = flags.gpu_graphs};
  request.trace = flags.trace;
  request.times = flags.times;
  request.pace = flags.pace;
  request.measure = flags.measure;
  request.log_every = flags.log_every;
  request.dry_run = flags.dry_run;
  request.json = flags.json;
  request.checksums = flags.checksums;
  request.shape_links = flags.shape_links;
  request.log_samples = flags.log_samples;
  request.links = link_use_from(flags.links);
  request.calibrate = flags.calibrate.value_or(0);
  request.formats = flags.formats;
  if (flags.deadline) request.deadline_seconds = parse_duration(*flags.deadline, "--deadline");
  return run_training(request);
}

CLI::App* declare_train(CLI::App& app, TrainFlags* flags) {
  CLI::App* command = app.add_subcommand("train", "train a model on data; save, evaluate, resume");
  command->footer(kTrainExamples);
  const std::string what = "What to train";
  not_empty(command->add_option("--job", flags->job_file, "job.textproto to start from, files beside it; flags override it")->group(what));
  not_empty(command->add_option("--model", flags->model, "zoo name (millrace models) or PATH.textproto [digits-cnn]")->group(what));
  not_empty(
      command
          ->add_option("--data", flags->data,
                       "digits, fashion-mnist, text, text:FILE, speech, synthetic:CxHxW:CLASSES:SAMPLES, idx:DIR, cifar10:DIR [digits]")
          ->group(what));
  not_empty(
      command->add_option("--cluster", flags->cluster, "devices: cpu, cpux4, vc709x15, u280x2+h200x2, or a .textproto [cpu]")->group(what));
  not_empty(command->add_option("--plan", flags->plan, "plan.textproto instead of planning on the spot")->group(what));
  command->add_option("--strategy", flags->strategy, "of a plan made on the spot: hybrid, layer, kind [hybrid]")->group(what);
  command
      ->add_option(
          "--divide", flags->divide,
          "of strategy kind, recurrent layers that are divided: auto (where that is faster), all, boards (those of every board) [auto]")
      ->group(what);
  command->add_option("--accounting", flags->accounting, kFullAccounting)->group(what);
  const std::string how = "How long and how";
  real(command->add_option("--epochs", flags->epochs, "passes over the training data [10]")->group(how), Least::kAboveZero);
  whole(command->add_option("--steps", flags->steps, "stop after so many updates instead")->group(how), 1);
  command->add_option("--time-limit", flags->time_limit, "end with a checkpoint after 90s, 15m, 3h [0: none]")->group(how);
  whole(command->add_option("--mini-batch", flags->mini_batch, "samples between two updates [32]")->group(how), 1, text::kMostBatch);
  whole(command->add_option("--micro-batch", flags->micro_batch, "samples per forward and backward; divides the mini-batch")->group(how), 1,
        text::kMostBatch);
  not_empty(command
                ->add_option("--time-chunks", flags->time_chunks,
                             "take sequences in so many parts, each travelling on when done; auto: as plan chooses, with the micro-batch "
                             "[1: whole; strategy kind: auto]")
                ->group(how));
  flags->recompute_asked = command->add_flag("--recompute", flags->recompute, kRecomputeHelp)->group(how);
  whole(command->add_option("--calibrate", flags->calibrate, "16-bit devices: choose formats from so many updates in fp32 [their own]")
            ->group(how),
        1);
  not_empty(command->add_option("--formats", flags->formats, "16-bit devices: the formats.txt of an earlier run")->group(how));
  command->add_option("--alignment", flags->alignment, "fpdeep, flush, 1f1b, stash, zero-bubble [flush; on one device 1f1b, the same sums]")
      ->group(how);
  whole(command->add_option("--replicas", flags->replicas, "rings training data-parallel, which share a mini-batch [the plan's, else 1]")
            ->group(how),
        1);
  whole(command->add_option("--seed", flags->seed, "of weights, order, augmentation and dropout [1]")->group(how), 0, UINT64_MAX);
  whole(command->add_option("--threads", flags->threads, "per rank [1]")->group(how), 1);
  const std::string optimizing = "Optimizer";
  command->add_option("--optimizer", flags->optimizer, "sgd, momentum, nesterov, adam, adamw [momentum]")->group(optimizing);
  real(command->add_option("--learning-rate,--lr", flags->learning_rate, "[0.01]")->group(optimizing), Least::kZero);
  command->add_option("--lr-schedule", flags->schedule, "constant, step, cosine, polynomial [constant]")->group(optimizing);
  real(command->add_option("--lr-steps", flags->step_epochs, "epochs at which the rate drops by 10, in any order: 30,60")
           ->delimiter(',')
           ->group(optimizing),
       Least::kAboveZero);
  real(command->add_option("--lr-final", flags->final_rate, "end of cosine and polynomial [0]")->group(optimizing), Least::kZero);
  real(command->add_option("--warmup", flags->warmup, "epochs of linear warm-up [0]")->group(optimizing), Least::kZero);
  real(command->add_option("--momentum", flags->momentum, "[0.9]")->group(optimizing), Least::kZero);
  real(command->add_option("--weight-decay", flags->weight_decay, "[0]")->group(optimizing), Least::kZero);
  real(command->add_option("--ema", flags->average_decay, "decay of the weights' average, which evaluations use: 0.999 [0: none]")
           ->group(optimizing),
       Least::kZero);
  not_empty(
      command->add_option("--batch-norm", flags->batch_norm, "statistics in training: exact (the micro-batch's), running [as the model]")
          ->group(optimizing));
  real(command->add_option("--label-smoothing", flags->label_smoothing, "share of labels that all classes get, in training alone [0]")
           ->group(optimizing),
       Least::kZero);
  real(command->add_option("--clip-norm", flags->clip_norm, "limit of the gradients' global norm")->group(optimizing), Least::kAboveZero);
  real(command->add_option("--clip-value", flags->clip_value, "limit of every gradient's size")->group(optimizing), Least::kAboveZero);
  whole(command->add_option("--crop", flags->crop, "augment: random crop after padding by so many pixels")->group(optimizing), 0);
  real(command
           ->add_option("--crop-area", flags->crop_area,
                        "augment: show a random part of each picture file, at least this share of its area (0.08 for ImageNet)")
           ->group(optimizing),
       Least::kZero);
  command->add_flag("--flip", flags->flip, "augment: random left-right flip")->group(optimizing);
  const std::string run = "The run";
  not_empty(command->add_option("--out", flags->out, "folder of the run: job, plan, metrics.jsonl, checkpoints/")->group(run));
  whole(command
            ->add_option("--checkpoint-every", flags->checkpoint_every,
                         "updates between checkpoints; the last is always saved [0: only that]")
            ->group(run),
        0);
  whole(command->add_option("--keep", flags->keep, "newest checkpoints to keep [3]")->group(run), 1);
  real(command->add_option("--evaluate-every", flags->evaluate_every, "epochs between evaluations; 0: only at the end [1]")->group(run),
       Least::kZero);
  not_empty(
      command->add_option("--keep-best", flags->keep_best, "loss or accuracy: keep the best evaluation's checkpoint in best/")->group(run));
  whole(command->add_option("--early-stop", flags->early_stop, "end after so many evaluations without a better one [0: never]")->group(run),
        0);
  command->add_option("--early-stop-metric", flags->stop_metric, "loss or accuracy [loss]")->group(run);
  real(command->add_option("--early-stop-delta", flags->stop_delta, "better by more than this [0]")->group(run), Least::kZero);
  not_empty(command->add_option("--resume", flags->resume, "continue the run in this folder")->group(run));
  not_empty(command->add_option("--init-from", flags->init_from, "start from a checkpoint or .safetensors file")->group(run));
  not_empty(command->add_option("--kernel-table", flags->kernel_table, "table written by millrace tune; the run records it")->group(run));
  not_empty(command->add_option("--cpu-precision", flags->cpu_precision, "of products on processors: fp32, bf16 [fp32]")->group(run));
  not_empty(
      command->add_option("--gpus", flags->gpus, "auto: where there are some; required; off: processors stand in [auto]")->group(run));
  not_empty(command->add_option("--gpu-precision", flags->gpu_precision, "of products on GPUs: fp32, tf32, fp16, bf16 [fp32]")->group(run));
  not_empty(
      command->add_option("--gpu-algorithms", flags->gpu_algorithms, "measure convolutions on GPUs, and keep the choices in this file")
          ->group(run));
  command->add_flag("--gpu-graphs", flags->gpu_graphs, "GPUs launch together what they have launched before; the bits are the same")
      ->group(run);
  not_empty(command->add_option("--trace", flags->trace, "write what each device did when, for ui.perfetto.dev")->group(run));
  command->add_flag("--measure", flags->measure, "plan by what this processor reaches, measured first and kept with the run")->group(run);
  not_empty(command->add_option("--times-out", flags->times, "measure what each device's actions take, for millrace simulate --times")
                ->group(run));
  not_empty(command->add_option("--pace", flags->pace, "such a file: no action takes less than it says, the rest is slept")->group(run));
  whole(command->add_option("--log-every", flags->log_every, "updates between step records [ten per epoch]")->group(run), 1);
  command->add_flag("--log-samples", flags->log_samples, "every update's samples by number, in samples.jsonl of the run's folder")
      ->group(run);
  const std::string ranks = "Under mpirun";
  command->add_option("--deadline", flags->deadline, "longest wait for a silent neighbour, 5s or 2m [30s]")->group(ranks);
  command->add_flag("--checksums", flags->checksums, "CRC32C of every message")->group(ranks);
  not_empty(command
                ->add_option("--deal", flags->deal,
                             "which devices a rank hosts: blocks, turns; auto: turns where a draining ring of CPUs fills sooner [auto]")
                ->group(ranks));
  not_empty(command
                ->add_option("--links", flags->links,
                             "auto: NCCL between GPUs of different ranks, MPI elsewhere; mpi; nccl: demanded of all [auto]")
                ->group(ranks));
  command->add_flag("--shape-links", flags->shape_links, "messages take as long as the plan's links would")->group(ranks);
  command->add_flag("--dry-run", flags->dry_run, "print memory per rank and time per epoch; train nothing")->group(run);
  command->add_flag("--json", flags->json, "one JSON object per line on standard output")->group(run);
  return command;
}

}  // namespace

void add_train_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<TrainFlags>();
  declare_train(app, flags.get())->callback([flags, &invocation] {
    invocation.json = flags->json;
    invocation.run = [flags] { return train(*flags); };
  });
}

TrainWords read_train_words(const std::vector<std::string>& words) {
  CLI::App app("", "millrace");
  app.require_subcommand(1);
  app.fallthrough();
  std::string log_level;  // the program's own, which it takes anywhere
  app.add_option("--log-level", log_level);
  app.add_flag("--no-progress");
  TrainFlags flags;
  const CLI::App* const command = declare_train(app, &flags);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    TrainWords asked;
    asked.help = command->help();
    return asked;
  } catch (const CLI::ParseError& error) {
    const std::string text = usage_error_text(app, error);
    fail(ErrorCode::kUsage, "{}", text.starts_with("millrace ") ? text.substr(9) : text);  // the program's name is added again
  }
  return {.job = job_of(flags), .resume = flags.resume, .json = flags.json, .dry_run = flags.dry_run, .measure = flags.measure, .help = {}};
}

}  // namespace millrace
