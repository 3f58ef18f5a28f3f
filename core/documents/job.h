// The job document: what `millrace train` needs to know besides the code. A flag overrides the job file.
//
//   Job job = load_job("job.textproto");
//   validate(job, "job.textproto");
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

enum class LearningRateKind { kConstant, kStep, kCosine, kPolynomial };

struct LearningRate {
  LearningRateKind kind = LearningRateKind::kConstant;
  double base = 0.01;
  double warmup_epochs = 0;         // linear from 0
  std::vector<double> step_epochs;  // step: multiply by `factor` at each
  double factor = 0.1;
  double final_rate = 0;  // cosine, polynomial
  double power = 1;       // polynomial
  bool operator==(const LearningRate&) const = default;
};

// What an evaluation found, of which one is to be best.
enum class EvaluationMetric { kNone, kLoss, kAccuracy };

// Training ends when so many evaluations in a row were not better than the best by more than min_delta.
struct EarlyStop {
  int64_t patience = 0;  // 0: never
  EvaluationMetric metric = EvaluationMetric::kLoss;
  double min_delta = 0;
  bool operator==(const EarlyStop&) const = default;
};

// What batch norms are trained with: what the model says, or one of core/operation/normalisation.h's statistics for all of them.
enum class BatchNormChoice { kAsModel, kExact, kRunning };

enum class ClipKind { kNone, kValue, kGlobalNorm };

struct Augmentation {
  int64_t crop_padding = 0;  // pad by so much, crop back at random; 0: off
  bool flip = false;         // left-right at random
  double crop_area = 0;      // of picture files a random part is shown, at least this share of the area; 0: off
  bool operator==(const Augmentation&) const = default;
};

// Where a link cuts the chain, given by hand: the channels of `layer` below `channel` go upstream, and of that channel
// itself the first `outputs` outputs. Channel 0 with no outputs: just before the layer.
struct FixedCut {
  std::string layer;
  int64_t channel = 0;
  int64_t outputs = 0;
  bool operator==(const FixedCut&) const = default;
};

struct Job {
  std::string model = "digits-cnn";  // zoo name or path
  std::string data = "digits";       // built-in name or format:PATH
  std::string cluster = "cpu";       // shorthand or path
  std::string plan;                  // path; empty: planned on the spot
  Alignment alignment = Alignment::kFlush;
  double epochs = 10;
  int64_t steps = 0;  // stop after so many updates; 0: by epochs
  int64_t mini_batch = 32;
  int64_t micro_batch = 0;  // 0: mini_batch on one device, else chosen by the planner
  int64_t time_chunks = 1;  // parts in time that sequences are taken in
  bool recompute = false;   // what recurrent layers keep is made again before errors come back (core/plan/recomputation.h)
  std::string strategy;     // of a plan made on the spot: "hybrid", "layer", "kind"; empty: hybrid
  std::string divide;       // of strategy kind: "auto" (where that is faster), "all" recurrent layers, "boards" (all of them); empty: auto
  uint64_t seed = 1;
  OptimizerSettings optimizer;
  LearningRate learning_rate;
  ClipKind clip = ClipKind::kNone;
  double clip_limit = 1;
  Augmentation augmentation;
  int64_t replicas = 1;
  int64_t threads = 1;           // per rank
  std::string out;               // run folder; empty: none
  int64_t checkpoint_every = 0;  // updates; 0: only at the end
  int64_t keep_checkpoints = 3;
  double evaluate_every_epochs = 1;  // 0: only at the end
  std::string init_from;             // a checkpoint or .safetensors file
  double time_limit_seconds = 0;     // 0: none
  double label_smoothing = 0;        // of the softmax loss in training; never in evaluation
  EvaluationMetric keep_best = EvaluationMetric::kNone;
  EarlyStop early_stop;
  BatchNormChoice batch_norm = BatchNormChoice::kAsModel;
  std::map<std::string, int64_t> pins;  // layer -> device index, for the planner
  std::map<int64_t, FixedCut> cuts;     // link -> where it cuts, for the planner
  bool operator==(const Job&) const = default;
};

Job parse_job(std::string_view text, std::string_view origin);
std::string text_of(const Job& job);
Job load_job(const std::filesystem::path& path);
// As a run's folder holds it: with a line that says where it ends.
void save(const Job& job, const std::filesystem::path& path);
// Of a run that goes on: fails with kMalformed where that line is missing. Of files from before there was one, and of those written by
// hand, where a field is missing that a saved job always has.
Job load_whole_job(const std::filesystem::path& path);
// Fails with kUsage naming the field and the value when the job contradicts itself (mini-batch not a multiple, ...).
void validate(const Job& job);

}  // namespace millrace
