// Training from end to end on one device, on a network that takes milliseconds: what reaches the weights, what does
// not, and what a run leaves behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <numeric>

#include "core/train/weights_digest.h"
#include "tests/core/documents/expect_error.h"
#include "tests/node/ring/tiny_run.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
using testing_support::tiny_model;
using testing_support::TinyRun;
using testing_support::values_of;

constexpr OptimizerKind kOptimizers[] = {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov, OptimizerKind::kAdam};

// Sets a flag once training has reported a step.
class StopAt : public MetricsSink {
 public:
  explicit StopAt(int64_t step) : step_(step) {}
  void write(const MetricsRecord& record) override {
    if (record.event != "step") return;
    for (const auto& [name, value] : record.values)
      if (name == "step" && std::get<int64_t>(value.content) >= step_) flag = true;
  }
  std::atomic<bool> flag = false;

 private:
  int64_t step_;
};

double trained_distance(const TensorMap& a, const TensorMap& b) {
  double sum = 0;
  for (const auto& [name, tensor] : a) {
    if (name.find("running") != std::string::npos) continue;
    const std::vector<double> x = values_of(a, name);
    const std::vector<double> y = values_of(b, name);
    for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  }
  return std::sqrt(sum);
}

TEST(Trainer, LearnsWithEveryOptimizer) {
  for (const OptimizerKind kind : kOptimizers) {
    SCOPED_TRACE(name_of(kind));
    TinyRun run(tiny_model(/*normalised=*/false));
    run.job.optimizer.kind = kind;
    run.job.learning_rate.base = kind == OptimizerKind::kAdam ? 0.01 : 0.05;
    run.job.epochs = 8;
    const TrainingOutcome outcome = run.train();
    EXPECT_EQ(outcome.steps, 40);
    EXPECT_EQ(outcome.reason, "epochs");
    EXPECT_LT(outcome.train_loss, 0.7 * run.values("epoch", "loss").front());
    EXPECT_GT(outcome.test.accuracy, 0.8);
    EXPECT_EQ(run.checkpoint().optimizer.size(), static_cast<size_t>(6 * run.job.optimizer.slots()));
  }
}

TEST(Trainer, RepeatsBitwiseAndFollowsTheSeed) {
  TinyRun first, second, other;
  other.job.seed = 4;
  const TrainingOutcome outcome = first.train();
  EXPECT_EQ(outcome.weights_digest, second.train().weights_digest);
  EXPECT_NE(outcome.weights_digest, other.train().weights_digest);
  EXPECT_EQ(outcome.weights_digest, weights_digest(first.weights()));
  for (const char* event : {"step", "epoch", "evaluation", "checkpoint", "done"}) EXPECT_EQ(first.lines(event), second.lines(event));
}

TEST(Trainer, ResumesBitwiseAnywhere) {
  for (const OptimizerKind kind : kOptimizers)
    for (const int64_t stop : {1, 4, 6}) {  // it ends with the next update: inside an epoch, at its end
      SCOPED_TRACE(fmt::format("{} stopped after {}", name_of(kind), stop));
      TinyRun whole, parts;
      whole.job.optimizer.kind = parts.job.optimizer.kind = kind;
      const TrainingOutcome expected = whole.train({.log_every = 2});
      StopAt stopper(stop);
      // The flag is polled after every update; the records that trip it come after every update too.
      EXPECT_EQ(parts.train({.sinks = {&stopper}, .signals = {.stop = &stopper.flag}, .log_every = 2}).reason, "signal");
      const int64_t stopped = parts.checkpoint().facts.step;
      EXPECT_GE(stopped, stop);
      EXPECT_LT(stopped, 10);
      EXPECT_EQ(parts.train({.resume = parts.job.out, .log_every = 2}).weights_digest, expected.weights_digest);
      EXPECT_EQ(first_difference(whole.weights(), parts.weights()), "");
      EXPECT_EQ(first_difference(whole.checkpoint().optimizer, parts.checkpoint().optimizer), "");
      for (const char* event : {"step", "epoch", "done"}) EXPECT_EQ(whole.lines(event), parts.lines(event));
    }
}

TEST(Trainer, ResumesInTheMiddleOfARecordAndOfAnEpoch) {
  TinyRun whole, parts;
  whole.train({.log_every = 4});
  parts.job.steps = 7;  // 3 updates after the last record, 2 into the second epoch
  parts.train({.log_every = 4});
  parts.job.steps = 0;
  parts.train({.resume = parts.job.out, .log_every = 4});
  EXPECT_EQ(first_difference(whole.weights(), parts.weights()), "");
  EXPECT_EQ(whole.lines("step"), parts.lines("step"));
  EXPECT_EQ(whole.lines("epoch"), parts.lines("epoch"));
}

// 40 samples: an epoch is five updates of 8 or two of 20.
TEST(Trainer, ResumesWithOtherMiniBatchesAtTheSameEpoch) {
  TinyRun run;
  run.job.steps = 5;
  run.train();
  run.job.steps = 0;
  run.job.epochs = 3;
  run.job.mini_batch = 20;
  const TrainingOutcome outcome = run.resume();
  EXPECT_EQ(outcome.steps, 9);
  EXPECT_EQ(outcome.epochs, 3);
  EXPECT_THAT(run.values("epoch", "epoch"), ElementsAre(1, 2, 3));
  EXPECT_THAT(run.values("epoch", "samples"), ElementsAre(40, 40, 40));
  EXPECT_THAT(run.values("evaluation", "step"), ElementsAre(5, 7, 9));
  const CheckpointFacts facts = run.checkpoint().facts;
  EXPECT_EQ(facts.step, 9);
  EXPECT_EQ(facts.epoch, 3);
  EXPECT_EQ(facts.samples_into_epoch, 0);
}

TEST(Trainer, RefusesToResumeWhatDoesNotContinue) {
  TinyRun run;
  run.job.steps = 2;
  run.train();
  run.job.seed = 9;
  expect_error(ErrorCode::kMismatch, "was written with seed 3, this run asks for 9", [&] { run.resume(); });
  run.job.seed = 3;
  run.job.optimizer.kind = OptimizerKind::kAdam;
  expect_error(ErrorCode::kMismatch, "was written with optimizer momentum, this run asks for adam", [&] { run.resume(); });
  run.job.optimizer.kind = OptimizerKind::kMomentum;
  ModelBuilder wider("wider", {1, 4, 4});
  wider.conv("conv1", 5, {.kernel = 3, .pad = 1});
  wider.flatten("flat");
  wider.dense("fc", 3);
  save(wider.finish(), run.job.model);
  expect_error(ErrorCode::kMismatch, "tensor conv1.weight is", [&] { run.resume(); });
}

// Formats are compared by whoever asks for them, and a run of an earlier version says nothing of its own.
TEST(Trainer, SaysWhenAResumedRunIsNotBitwiseAsBefore) {
  TinyRun run;
  const std::map<std::string, std::string> here{{"formats", "9 layers"}, {"program", "one \"and\" only"}};
  run.job.steps = 1;
  run.train({.fingerprint = here});
  const std::filesystem::path file = std::filesystem::path(run.job.out) / "fingerprint.json";
  const auto warned = [&](const nlohmann::json& known) {
    if (!known.is_null()) write_atomically(file, known.dump());
    ++run.job.steps;
    testing::internal::CaptureStderr();
    run.train({.fingerprint = here, .resume = run.job.out});
    return testing::internal::GetCapturedStderr().find("not bitwise as before") != std::string::npos;
  };
  EXPECT_FALSE(warned({}));  // what it wrote itself
  EXPECT_FALSE(warned({{"program", "one \"and\" only"}}));
  EXPECT_TRUE(warned({{"formats", "9 layers"}, {"program", "another"}}));
  EXPECT_TRUE(warned({{"formats", "9 layers"}}));
  EXPECT_TRUE(warned("no object"));
}

TEST(Trainer, NeverOverwritesARun) {
  TinyRun run;
  run.job.steps = 1;
  run.train();
  expect_error(ErrorCode::kUsage, "already holds a run", [&] { run.train(); });
}

// The first convolution of the tiny network under a classifier of another size.
Model other_head() {
  ModelBuilder net("other-head", {1, 4, 4});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.flatten("flat");
  net.dense("fc", 3);
  return net.finish();
}

TEST(Trainer, StartsFromGivenWeightsAndDrawsTheRest) {
  TinyRun source(tiny_model(/*normalised=*/false));
  source.job.steps = 3;
  source.train();

  TinyRun run(other_head()), drawn(other_head());
  for (TinyRun* each : {&run, &drawn}) {
    each->job.steps = 1;
    each->job.learning_rate.base = 0;  // weights stay what they were
  }
  run.job.init_from = source.job.out;
  run.train();
  drawn.train();
  const TensorMap weights = run.weights();
  EXPECT_EQ(weights.at("conv1.weight"), source.weights().at("conv1.weight"));
  EXPECT_EQ(weights.at("conv1.bias"), source.weights().at("conv1.bias"));
  EXPECT_EQ(weights.at("fc.weight"), drawn.weights().at("fc.weight"));
  EXPECT_FALSE(weights.at("conv1.weight") == drawn.weights().at("conv1.weight"));

  ModelBuilder foreign("foreign", {1, 4, 4});
  foreign.flatten("flat");
  foreign.dense("classifier", 3);
  TinyRun stranger(foreign.finish());
  stranger.job.init_from = source.job.out;
  expect_error(ErrorCode::kMismatch, "no tensor has the name and shape of a parameter of model \"foreign\"", [&] { stranger.train(); });
}

TEST(Trainer, FrozenLayersStayBitwiseAndTheOthersLearn) {
  Model model = tiny_model();
  for (Layer& layer : model.layers)
    if (layer.name == "conv1" || layer.name == "norm") layer.frozen = true;
  TinyRun before(model), after(model);
  before.job.steps = 1;
  after.job.steps = 6;
  for (TinyRun* run : {&before, &after}) {
    run->job.optimizer.weight_decay = 0.1;  // reaches every trained weight, gradient or not
    run->train();
  }
  for (const char* name : {"conv1.weight", "conv1.bias", "norm.weight", "norm.bias"})
    EXPECT_EQ(before.weights().at(name), after.weights().at(name)) << name;
  for (const char* name : {"conv2.weight", "conv2.bias", "fc.weight", "fc.bias"})
    EXPECT_FALSE(before.weights().at(name) == after.weights().at(name)) << name;
  EXPECT_FALSE(after.checkpoint().optimizer.contains("conv1.weight#slot0"));
}

// ---- the update ----------------------------------------------------------------------------------------------------

// The weights after `steps` updates of plain SGD at a rate of 1, all else by `change`.
TensorMap sgd_weights(int64_t steps, const std::function<void(Job&)>& change) {
  TinyRun run(tiny_model(/*normalised=*/false));
  run.job.optimizer = {.kind = OptimizerKind::kSgd};
  run.job.learning_rate.base = 1;
  run.job.steps = steps;
  change(run.job);
  run.train();
  return run.weights();
}
TensorMap initial_weights() {
  return sgd_weights(1, [](Job& job) { job.learning_rate.base = 0; });
}

TEST(TrainerUpdate, ClipsByGlobalNorm) {
  const TensorMap start = initial_weights();
  const double norm = trained_distance(start, sgd_weights(1, [](Job&) {}));
  ASSERT_GT(norm, 0.01);
  const auto clipped = [&](double limit) {
    return sgd_weights(1, [&](Job& job) {
      job.clip = ClipKind::kGlobalNorm;
      job.clip_limit = limit;
    });
  };
  EXPECT_NEAR(trained_distance(start, clipped(norm / 10)), norm / 10, 1e-6);
  EXPECT_EQ(weights_digest(clipped(norm * 2)), weights_digest(sgd_weights(1, [](Job&) {})));  // short gradients pass untouched
}

TEST(TrainerUpdate, ReportsTheNormBeforeClipping) {
  TinyRun run(tiny_model(/*normalised=*/false));
  run.job.optimizer = {.kind = OptimizerKind::kSgd};
  run.job.learning_rate.base = 1;
  run.job.steps = 1;
  run.job.clip = ClipKind::kGlobalNorm;
  run.job.clip_limit = 1e-3;
  run.train();
  EXPECT_NEAR(run.values("step", "gradient_norm").front(), trained_distance(initial_weights(), sgd_weights(1, [](Job&) {})), 1e-5);
}

TEST(TrainerUpdate, ClipsByValue) {
  const TensorMap start = initial_weights();
  const TensorMap free = sgd_weights(1, [](Job&) {});
  constexpr double kLimit = 0.01;
  const TensorMap clipped = sgd_weights(1, [](Job& job) {
    job.clip = ClipKind::kValue;
    job.clip_limit = kLimit;
  });
  int64_t limited = 0;
  for (const auto& [name, tensor] : start) {
    const std::vector<double> from = values_of(start, name), to = values_of(free, name), to_clipped = values_of(clipped, name);
    for (size_t i = 0; i < from.size(); ++i) {
      EXPECT_NEAR(from[i] - to_clipped[i], std::clamp(from[i] - to[i], -kLimit, kLimit), 1e-6) << name;
      limited += std::abs(from[i] - to[i]) > kLimit ? 1 : 0;
    }
  }
  EXPECT_GT(limited, 5);
}

TEST(TrainerUpdate, TakesItsRateFromTheSchedule) {
  TinyRun run;
  run.job.epochs = 3;
  run.job.learning_rate = {.kind = LearningRateKind::kStep, .base = 0.08, .warmup_epochs = 0.4, .step_epochs = {1, 2}, .factor = 0.5};
  run.train();
  // Five updates an epoch: two of warm-up, from 0.
  EXPECT_THAT(run.values("step", "learning_rate"),
              Pointwise(DoubleEq(), {0.0, 0.04, 0.08, 0.08, 0.08, 0.04, 0.04, 0.04, 0.04, 0.04, 0.02, 0.02, 0.02, 0.02, 0.02}));
}

// Half a cosine over what is trained, which is less than the epochs say, or more.
TEST(TrainerUpdate, SchedulesSpanTheSteps) {
  for (const int64_t steps : {4, 20}) {
    TinyRun run;
    run.job.steps = steps;
    run.job.learning_rate = {.kind = LearningRateKind::kCosine, .base = 0.08, .step_epochs = {}};
    run.train();
    std::vector<double> expected;
    for (int64_t step = 0; step < steps; ++step)
      expected.push_back(0.04 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(steps))));
    EXPECT_THAT(run.values("step", "learning_rate"), Pointwise(DoubleNear(1e-15), expected));
  }
}

// The same training written out by hand, action by action.
TEST(TrainerUpdate, IsTheScheduledActionsAtTheScheduledRate) {
  TinyRun run;
  run.job.learning_rate = {.kind = LearningRateKind::kStep, .base = 0.08, .step_epochs = {1}, .factor = 0.25};
  const std::string digest = run.train().weights_digest;

  const TrainingTask task = prepare_task(run.job);
  const auto device = make_reference_device(ElementType::kFloat32);
  SegmentExecutor segment(task.plan, *task.graph, 0, *device);
  segment.initialize(run.job.seed);
  Loader loader(task.data.train, ImageTransform(task.data.train, task.transform, {}, run.job.seed),
                BatchSampler::training(40, run.job.seed, {.mini_batch = 8, .micro_batch = 4}));
  for (int64_t step = 0; step < 10; ++step) {
    for (const int64_t s : {2 * step, 2 * step + 1}) {
      const Batch& loaded = loader.load(s);
      const MicroBatch batch{.index = s,
                             .epoch = step / 5,
                             .seed = run.job.seed,
                             .sample_ids = loaded.sample_ids,
                             .labels = loaded.labels,
                             .error_scale = 1.0 / 8};
      segment.forward(batch, loaded.pixels);
      segment.error_back(batch);
      segment.parameter_gradient(batch);
    }
    segment.update({.optimizer = run.job.optimizer, .learning_rate = step < 5 ? 0.08 : 0.02, .step = step + 1});
  }
  EXPECT_EQ(weights_digest(read_weights(segment, *task.graph, ElementType::kFloat32)), digest);
}

// ---- when it ends --------------------------------------------------------------------------------------------------

TEST(TrainerEnd, TimeLimitStopsWithACheckpoint) {
  TinyRun run;
  run.job.time_limit_seconds = 1e-9;
  const TrainingOutcome outcome = run.train();
  EXPECT_EQ(outcome.reason, "time limit");
  EXPECT_EQ(outcome.steps, 1);
  EXPECT_EQ(run.checkpoint().facts.step, 1);
  EXPECT_THAT(run.lines("done"), ElementsAre(HasSubstr(R"("reason":"time limit")")));
}

// Whatever came before the first update, such as choosing formats, is part of it.
TEST(TrainerEnd, TimeLimitCountsFromTheBeginning) {
  TinyRun run;
  run.job.time_limit_seconds = 3600;
  const TrainingOutcome outcome = run.train({.begun = std::chrono::steady_clock::now() - std::chrono::hours(2)});
  EXPECT_EQ(outcome.reason, "time limit");
  EXPECT_EQ(outcome.steps, 1);
}

// Takes away the place of files that are written at the end.
class RemoveAtEnd : public MetricsSink {
 public:
  explicit RemoveAtEnd(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void write(const MetricsRecord& record) override {
    if (record.event == "done") std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
};

TEST(TrainerEnd, WhatCannotBeWrittenOfItHidesNothing) {
  TinyRun run;
  run.job.steps = 2;
  const std::filesystem::path folder = run.job.out + ".measured";
  make_folders(folder);
  RemoveAtEnd remover(folder);
  const TrainingOutcome outcome = run.train({.sinks = {&remover}, .trace = folder / "trace.json", .times = folder / "times.json"});
  EXPECT_EQ(outcome.steps, 2);
  EXPECT_EQ(outcome.reason, "steps");
  EXPECT_THAT(outcome.unwritten, testing::UnorderedElementsAre(HasSubstr("trace.json: cannot"), HasSubstr("times.json: cannot")));
}

// The first update allocates: of less than two there is nothing to tell, which is said before them where it is known.
TEST(TrainerEnd, TimesOfOneUpdateAreRefusedOrMissed) {
  TinyRun known, cut_short;
  const std::filesystem::path times = known.job.out + ".times.json", trace = known.job.out + ".trace.json";
  known.job.steps = 1;
  expect_error(ErrorCode::kUsage, "--times-out: a single update is ahead", [&] { known.train({.times = times}); });
  EXPECT_FALSE(std::filesystem::exists(known.job.out));
  known.job.steps = 3;
  known.train({.times = times});
  EXPECT_TRUE(std::filesystem::exists(times));
  expect_error(ErrorCode::kUsage, "--times-out: no updates are ahead", [&] { known.train({.resume = known.job.out, .times = times}); });
  known.job.steps = 4;
  expect_error(ErrorCode::kUsage, "--times-out: a single update", [&] { known.train({.resume = known.job.out, .times = times}); });

  cut_short.job.time_limit_seconds = 1e-9;
  const TrainingOutcome outcome = cut_short.train({.trace = trace, .times = times});
  EXPECT_EQ(outcome.steps, 1);
  EXPECT_EQ(outcome.reason, "time limit");
  EXPECT_THAT(outcome.unwritten, ElementsAre(HasSubstr("device 0 made no second update")));
  EXPECT_TRUE(std::filesystem::exists(trace));
}

TEST(TrainerEnd, StopFlagStopsWithACheckpoint) {
  TinyRun run;
  StopAt stopper(3);  // the next update is the last
  const TrainingOutcome outcome = run.train({.sinks = {&stopper}, .signals = {.stop = &stopper.flag}});
  EXPECT_EQ(outcome.reason, "signal");
  EXPECT_EQ(outcome.steps, 4);
  EXPECT_EQ(run.checkpoint().facts.step, 4);
  EXPECT_EQ(weights_digest(run.weights()), outcome.weights_digest);
}

TEST(TrainerEnd, NotANumberNamesStepAndLayerAndLeavesTheLastCheckpoint) {
  TinyRun run(tiny_model(/*normalised=*/false));
  run.job.learning_rate.base = 1e38;
  run.job.checkpoint_every = 1;
  try {
    run.train();
    FAIL() << "nothing failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNumeric);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step 2: the loss is not finite"), HasSubstr(R"(whose output is not is ")"),
                                    HasSubstr("1e+38"), HasSubstr("checkpoint of step 1 is intact")));
  }
  EXPECT_EQ(run.checkpoint().facts.step, 1);
}

TEST(TrainerEnd, ReportsLossOfTheWholeEpochAndEvaluatesAtItsEnd) {
  TinyRun run;
  run.train();
  const std::vector<double> steps = run.values("step", "loss");
  ASSERT_EQ(steps.size(), 10u);
  const std::vector<double> epochs = run.values("epoch", "loss");
  ASSERT_EQ(epochs.size(), 2u);
  for (size_t e = 0; e < 2; ++e) EXPECT_NEAR(epochs[e], std::accumulate(&steps[5 * e], &steps[5 * e] + 5, 0.0) / 5, 1e-12);
  EXPECT_THAT(run.values("evaluation", "step"), ElementsAre(5, 10));
  EXPECT_THAT(run.values("evaluation", "samples"), ElementsAre(8, 8));
}

// ---- what must not matter ------------------------------------------------------------------------------------------

TEST(TrainerPromise, EvaluationsAndCheckpointsDoNotChangeTheWeights) {
  TinyRun plain, busy;
  plain.job.evaluate_every_epochs = 2;
  busy.job.evaluate_every_epochs = 0.2;
  busy.job.checkpoint_every = 1;
  busy.job.keep_checkpoints = 2;
  EXPECT_EQ(plain.train().weights_digest, busy.train().weights_digest);
  EXPECT_EQ(plain.values("evaluation", "step").size(), 1u);
  EXPECT_EQ(busy.values("evaluation", "step").size(), 10u);
  EXPECT_EQ(busy.values("checkpoint", "step").size(), 10u);
  int64_t kept = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(busy.job.out) / "checkpoints"))
    ++kept;
  EXPECT_EQ(kept, 2);
}

TEST(TrainerPromise, DrainedAlignmentsGiveEqualWeights) {
  std::map<std::string, std::vector<std::string_view>> digests;
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble, Alignment::kFpdeep}) {
    TinyRun run;
    run.job.alignment = alignment;  // on one device fpdeep has nothing under way either
    digests[run.train().weights_digest].push_back(name_of(alignment));
  }
  EXPECT_EQ(digests.size(), 1u);
}

TEST(TrainerPromise, ForecastTellsTheExactMemory) {
  TinyRun run;
  const TrainingTask task = prepare_task(run.job);
  const auto device = make_reference_device(ElementType::kFloat32);
  const TrainingForecast forecast = forecast_alone(task, [](int64_t) { return make_reference_device(ElementType::kFloat32); });
  SegmentExecutor segment(task.plan, *task.graph, 0, *device);
  ASSERT_EQ(forecast.memory.size(), 1u);
  EXPECT_EQ(forecast.memory[0].segments.total(), segment.memory().total());
  EXPECT_EQ(forecast.updates_per_epoch, 5);
  EXPECT_EQ(forecast.total_updates, 10);
  EXPECT_FALSE(std::filesystem::exists(run.job.out));
}

}  // namespace
}  // namespace millrace
