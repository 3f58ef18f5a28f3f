// The fields of the job document. See fields.h; internal to core/documents.
#pragma once

#include <string>
#include <vector>

#include "core/documents/fields.h"
#include "core/documents/job.h"
#include "core/documents/plan_fields.h"

namespace millrace::text {

// The entries of maps, as text has them.
struct Pin {
  std::string layer;
  int64_t device = 0;
};

struct Cut {
  int64_t link = 0;
  std::string layer;
  int64_t channel = 0;
  int64_t outputs = 0;
};

template <>
struct Fields<Pin> {
  static void visit(auto& v) {
    v.field("layer", &Pin::layer, Presence::kRequired, Words::kName);
    v.field("device", &Pin::device, Presence::kRequired, kDevice);
  }
};

template <>
struct Fields<Cut> {
  static void visit(auto& v) {
    constexpr Integers kLink{0, kMostDevices - 2};
    constexpr Integers kChannel{0, kMostDimension};
    v.field("link", &Cut::link, Presence::kRequired, kLink);
    v.field("layer", &Cut::layer, Presence::kRequired, Words::kName);
    v.field("channel", &Cut::channel, Presence::kRecorded, kChannel);
    v.field("outputs", &Cut::outputs, Presence::kRecorded, kChannel);
  }
};

template <>
struct Fields<LearningRate> {
  static void visit(auto& v) {
    v.field("kind", &LearningRate::kind, Presence::kRecorded);
    v.field("base", &LearningRate::base, Presence::kRecorded, kNotNegative);
    v.field("warmup_epochs", &LearningRate::warmup_epochs, Presence::kRecorded, kNotNegative);
    v.list("step_epochs", &LearningRate::step_epochs, kPositive);
    v.field("factor", &LearningRate::factor, Presence::kRecorded, kPositive);
    v.field("final_rate", &LearningRate::final_rate, Presence::kRecorded, kNotNegative);
    v.field("power", &LearningRate::power, Presence::kRecorded, kPositive);
  }
  static void check(const LearningRate& rate, const Path& where);
};

template <>
struct Fields<Augmentation> {
  static void visit(auto& v) {
    constexpr Integers kCropPadding{0, 1 << 16};
    v.field("crop_padding", &Augmentation::crop_padding, Presence::kRecorded, kCropPadding);
    v.field("flip", &Augmentation::flip, Presence::kRecorded);
    v.field("crop_area", &Augmentation::crop_area, Presence::kRecorded, kShare);
  }
};

template <>
struct Fields<EarlyStop> {
  static void visit(auto& v) {
    v.field("patience", &EarlyStop::patience, Presence::kRecorded, kCount);
    v.field("metric", &EarlyStop::metric, Presence::kRecorded);
    v.field("min_delta", &EarlyStop::min_delta, Presence::kRecorded, kNotNegative);
  }
};

// All but the pins and cuts.
template <>
struct Fields<Job> {
  static void visit(auto& v) {
    constexpr Integers kMiniBatch{1, kMostBatch};
    constexpr Integers kMicroBatch{0, kMostBatch};
    constexpr Integers kReplicas{1, kMostDevices};
    constexpr Integers kThreads{1, 4096};
    constexpr Reals kEpochs{0, 1e9, true};
    v.field("model", &Job::model, Presence::kRecorded, Words::kGiven);
    v.field("data", &Job::data, Presence::kRecorded, Words::kGiven);
    v.field("cluster", &Job::cluster, Presence::kRecorded, Words::kGiven);
    v.field("plan", &Job::plan, Presence::kDefaulted, Words::kFree);
    v.field("alignment", &Job::alignment, Presence::kRecorded);
    v.field("epochs", &Job::epochs, Presence::kRecorded, kEpochs);
    v.field("steps", &Job::steps, Presence::kRecorded, kCount);
    v.field("mini_batch", &Job::mini_batch, Presence::kRecorded, kMiniBatch);
    v.field("micro_batch", &Job::micro_batch, Presence::kRecorded, kMicroBatch);
    v.field("time_chunks", &Job::time_chunks, Presence::kDefaulted, Integers{0, 1 << 20});  // 0: as many as the planner chooses
    v.field("recompute", &Job::recompute, Presence::kDefaulted);
    v.field("strategy", &Job::strategy, Presence::kDefaulted, Words::kFree);
    v.field("divide", &Job::divide, Presence::kDefaulted, Words::kFree);
    v.field("seed", &Job::seed, Presence::kRecorded);
    v.field("optimizer", &Job::optimizer, Presence::kRecorded);
    v.field("learning_rate", &Job::learning_rate, Presence::kRecorded);
    v.field("clip", &Job::clip, Presence::kRecorded);
    v.field("clip_limit", &Job::clip_limit, Presence::kRecorded, kPositive);
    v.field("augmentation", &Job::augmentation, Presence::kRecorded);
    v.field("replicas", &Job::replicas, Presence::kRecorded, kReplicas);
    v.field("threads", &Job::threads, Presence::kRecorded, kThreads);
    v.field("out", &Job::out, Presence::kDefaulted, Words::kFree);
    v.field("checkpoint_every", &Job::checkpoint_every, Presence::kRecorded, kCount);
    v.field("keep_checkpoints", &Job::keep_checkpoints, Presence::kRecorded, kPositiveCount);
    v.field("evaluate_every_epochs", &Job::evaluate_every_epochs, Presence::kRecorded, kNotNegative);
    v.field("init_from", &Job::init_from, Presence::kDefaulted, Words::kFree);
    v.field("time_limit_seconds", &Job::time_limit_seconds, Presence::kRecorded, kNotNegative);
    v.field("label_smoothing", &Job::label_smoothing, Presence::kDefaulted, kFraction);
    v.field("keep_best", &Job::keep_best, Presence::kDefaulted);
    v.field("early_stop", &Job::early_stop, Presence::kDefaulted);
    v.field("batch_norm", &Job::batch_norm, Presence::kDefaulted);
  }
};

template <>
struct Codec<Job> {
  static void read(const Message& message, Job& job, const Path& where);
  static void write(const Job& job, Message& message);
  static void check(const Job& job, const Path& where);
};

}  // namespace millrace::text
