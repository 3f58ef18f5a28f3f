// Sequences trained as a user trains them: text that flows on over checkpoints, rows of labels, and what evaluation tells.
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "core/cpu/cpu_device.h"
#include "core/train/evaluate.h"
#include "tests/core/documents/expect_error.h"
#include "tests/node/ring/tiny_run.h"

namespace millrace::testing_support {
namespace {

Model with_torch_weights(ModelBuilder& net, InputKind kind, const Operation& loss) {
  Model model = net.finish(loss);
  model.input_kind = kind;
  for (Layer& layer : model.layers)
    if (!std::holds_alternative<Dense>(layer.operation)) layer.initializer = Initializer::kTorchUniform;
  return model;
}

Model tiny_reader(int64_t steps = 6) {
  ModelBuilder net("reader", {1, steps, 1});
  net.layer("embedding", Embedding{.vocabulary = 5, .dimension = 8});
  net.layer("lstm", Recurrent{.hidden = 16, .stateful = true});
  net.dense("fc", 5);
  return with_torch_weights(net, InputKind::kTokens, SoftmaxCrossEntropy{});
}

Model tiny_listener(int64_t stride = 1) {
  ModelBuilder net("listener", {1, 20, 12});
  net.layer("conv", Conv2d{.out_channels = 4, .kernel_h = 3, .kernel_w = 12, .stride_h = stride, .pad_h = 1});
  net.relu("relu");
  net.layer("steps", ToSequence{});
  net.layer("gru", Recurrent{.cell = CellKind::kGru, .hidden = 16, .bidirectional = true, .reset_after = true});
  net.dense("fc", 3);
  return with_torch_weights(net, InputKind::kFeatures, CtcLoss{});
}

// A run on a text of its own.
class TextRun : public TinyRun {
 public:
  TextRun() : TinyRun(tiny_reader()) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "to be or not to be, ";
    std::ofstream(folder_.path() / "text.txt") << text;
    job.data = "text:" + (folder_.path() / "text.txt").string();
    job.optimizer.kind = OptimizerKind::kAdam;
    job.learning_rate.base = 0.01;
    job.mini_batch = 4;
    job.micro_batch = 2;
    job.epochs = 4;
  }

 private:
  TemporaryFolder folder_;
};

SequenceEvaluation evaluated(const Job& job, const TensorMap& weights, const EvaluationOptions& options = {}) {
  const TrainingTask task = prepare_task(job);
  const auto device = make_reference_device(ElementType::kFloat32);
  SegmentExecutor segment(task.plan, *task.graph, 0, *device);
  segment.initialize(1);
  write_weights(segment, *task.graph, weights);
  return evaluate_fully(segment, *task.graph, task.plan, task.data.test, task.transform, options);
}

TEST(SequenceTraining, TextIsLearntAndToldInBitsPerCharacter) {
  TextRun run;
  const TrainingOutcome outcome = run.train();
  const SequenceEvaluation found = evaluated(run.job, run.weights());
  EXPECT_EQ(found.basic.loss, outcome.test.loss);
  ASSERT_TRUE(found.bits_per_character);
  EXPECT_NEAR(*found.bits_per_character, found.basic.loss / 6 / std::numbers::ln2, 1e-12);
  EXPECT_LT(*found.bits_per_character, 3.5) << "all 97 characters alike would be 6.6";
  EXPECT_GT(*found.step_accuracy, 0.25);
  EXPECT_FALSE(found.character_error_rate);
}

// The states that go on from mini-batch to mini-batch are part of a checkpoint, and a stream's start is known after it.
TEST(SequenceTraining, AResumedTextRunIsBitwiseTheUnbrokenOne) {
  TextRun unbroken;
  const TrainingOutcome whole = unbroken.train();
  for (const int64_t stop : {11, 30, 60}) {  // within an epoch of 30, at its end, at the end of two
    TextRun broken;
    broken.job.steps = stop;
    broken.train();
    broken.job.steps = 0;
    EXPECT_EQ(broken.resume().weights_digest, whole.weights_digest) << "stopped after " << stop;
  }
}

TEST(SequenceTraining, RowsOfLabelsAreLearntAndToldInErrorRates) {
  TinyRun run(tiny_listener());
  run.job.data = "ctc:2:2:120";
  run.job.optimizer.kind = OptimizerKind::kAdam;
  run.job.learning_rate.base = 0.02;
  run.job.epochs = 12;
  run.train();
  const SequenceEvaluation path = evaluated(run.job, run.weights()), beam = evaluated(run.job, run.weights(), {.beam = 8});
  ASSERT_TRUE(path.character_error_rate && beam.character_error_rate);
  EXPECT_LT(*path.character_error_rate, 0.2);
  EXPECT_LE(*beam.character_error_rate, *path.character_error_rate + 0.05);
  EXPECT_FALSE(path.bits_per_character);
  EXPECT_GT(path.basic.accuracy, 0.6);
  expect_error(ErrorCode::kUsage, "a beam of -1", [&] { evaluated(run.job, run.weights(), {.beam = -1}); });
}

TEST(SequenceTraining, RefusesRowsThatTheNetworkHasNoStepsFor) {
  TinyRun run(tiny_listener(8));
  run.job.data = "ctc:2:4:120";
  expect_error(ErrorCode::kMismatch, "leave the sample out", [&] { prepare_task(run.job); });
}

TEST(SequenceTraining, NotesSayWhatBecameOfModelAndData) {
  TextRun run;
  const TrainingTask task = prepare_task(run.job);
  EXPECT_THAT(task.notes, ::testing::ElementsAre("layer \"embedding\" knows 97 tokens instead of 5",
                                                 "the head is replaced: layer \"fc\" gives 97 scores instead of 5"));
  EXPECT_EQ(task.data.train.shape.height, 6) << "the text is cut for the model";
}

}  // namespace
}  // namespace millrace::testing_support
