// Recurrent networks trained by the executor on one device: they learn, chunks of time change nothing, and states carried
// between mini-batches survive a checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/cpu/cpu_device.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/plan/recomputation.h"
#include "core/plan/schedule.h"
#include "core/train/evaluate.h"
#include "core/train/executor.h"
#include "core/train/segment_state.h"
#include "core/train/weights_digest.h"
#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

constexpr int64_t kSteps = 12, kVocabulary = 8;

Model with_torch_weights(ModelBuilder& net, const Operation& loss = SoftmaxCrossEntropy{}) {
  Model model = net.finish(loss);
  for (Layer& layer : model.layers) layer.initializer = Initializer::kTorchUniform;
  return model;
}

Model char_model(bool stateful, int64_t truncation = 0) {
  ModelBuilder net("chars", {1, kSteps, 1});
  net.layer("embedding", Embedding{.vocabulary = kVocabulary, .dimension = 10});
  net.layer("lstm1", Recurrent{.hidden = 24, .stateful = stateful, .truncation = truncation});
  net.layer("drop", Dropout{.probability = 0.1});
  const std::string shortcut = net.last();
  net.layer("gru2", Recurrent{.cell = CellKind::kGru, .hidden = 24, .reset_after = true, .stateful = stateful});
  net.add("join", {net.last(), shortcut});
  net.dense("fc", kVocabulary);
  return with_torch_weights(net);
}

// Convolutions and a layer of two directions, which need whole sequences, in front of one that does not.
Model speech_model() {
  ModelBuilder net("speech", {1, 16, 6});
  net.conv_without_bias("conv", 3, {.kernel = 3, .stride = 2, .pad = 1});
  net.layer("conv_norm", BatchNorm{});
  net.relu("relu");
  net.layer("steps", ToSequence{});
  net.layer("both", Recurrent{.hidden = 6, .bidirectional = true});
  net.layer("norm", BatchNorm{});
  net.layer("rnn", Recurrent{.cell = CellKind::kVanillaTanh, .hidden = 8});
  net.dense("fc", 5);
  return with_torch_weights(net, CtcLoss{});
}

// One device, with what a segment borrows.
struct Training {
  explicit Training(const Model& model, int64_t mini_batch = 4, int64_t micro_batch = 2, OptimizerKind kind = OptimizerKind::kAdam)
      : graph(model), device(make_cpu_device()) {
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", 1);
    request.mini_batch = mini_batch;
    request.micro_batch = micro_batch;
    request.optimizer.kind = kind;
    request.alignment = Alignment::kOneForwardOneBackward;
    plan = single_device_plan(graph, request);
    segment = std::make_unique<SegmentExecutor>(plan, graph, 0, *device);
    segment->initialize(7);
  }

  // Text that goes round and round: the token at place p of stream n is (p * (n % 3 + 1) + n) % kVocabulary. A sample of mini-batch m
  // holds the places from m * kSteps on, so that the next one continues it.
  void load(int64_t s) {
    tokens.clear();
    labels.clear();
    ids.clear();
    for (int64_t i = 0; i < plan.micro_batch; ++i) {
      const int64_t stream = s % plan.micro_batches() * plan.micro_batch + i, begin = s / plan.micro_batches() * kSteps;
      ids.push_back(stream);
      const auto token = [&](int64_t place) { return (place * (stream % 3 + 1) + stream) % kVocabulary; };
      for (int64_t t = 0; t < kSteps; ++t) {
        tokens.push_back(static_cast<float>(token(begin + t)));
        labels.push_back(static_cast<int32_t>(token(begin + t + 1)));
      }
    }
  }
  void load_speech(int64_t s) {
    tokens.clear();
    labels.clear();
    ids.clear();
    lengths.clear();
    const Philox draw(3, 1);
    for (int64_t i = 0; i < plan.micro_batch; ++i) {
      const int64_t id = s * plan.micro_batch + i;
      ids.push_back(id);
      lengths.push_back(static_cast<int32_t>(12 + id % 5));
      for (int64_t e = 0; e < 16 * 6; ++e) tokens.push_back(draw.uniform(static_cast<uint64_t>(id * 96 + e)) - 0.5F);
      for (const int64_t label : {1 + id % 4, 1 + (id + 1) % 4, int64_t{kNoLabel}}) labels.push_back(static_cast<int32_t>(label));
    }
  }

  // The actions of a mini-batch, as the schedule expands them.
  double mini_batch(int64_t index, int32_t chunks = 1) {
    ScheduleSpec spec = schedule_spec(plan, 0, 1);
    spec.chunks = chunks;
    Score score;
    for (const Action& action : actions_of(spec)) {
      const int64_t s = index * plan.micro_batches() + action.index;
      if (action.kind == ActionKind::kUpdate) {
        segment->update({.optimizer = plan.optimizer, .learning_rate = 0.01, .step = index + 1});
        continue;
      }
      if (graph.model().input.width > 1)
        load_speech(s);
      else
        load(s);
      const MicroBatch batch{.index = s,
                             .seed = 7,
                             .sample_ids = ids,
                             .labels = labels,
                             .error_scale = 1.0 / static_cast<double>(plan.mini_batch),
                             .lengths = lengths,
                             .chunk = std::max(0, action.chunk),
                             .chunks = action.chunk < 0 ? 1 : chunks};
      if (action.kind == ActionKind::kForward) segment->forward(batch, tokens, nullptr, &score);
      if (action.kind == ActionKind::kErrorBack) segment->error_back(batch);
      if (action.kind == ActionKind::kParameterGradient) segment->parameter_gradient(batch);
    }
    return score.loss / static_cast<double>(score.samples);
  }

  TensorMap weights() { return read_weights(*segment, graph, ElementType::kFloat32); }
  TensorMap optimizer() { return read_optimizer(*segment, graph, plan.optimizer, ElementType::kFloat32); }
  std::string digest() { return weights_digest(weights()) + weights_digest(optimizer()); }

  Graph graph;
  Plan plan;
  std::unique_ptr<Device> device;
  std::unique_ptr<SegmentExecutor> segment;
  std::vector<float> tokens;
  std::vector<int32_t> labels, lengths;
  std::vector<int64_t> ids;
};

TEST(RecurrentTraining, LearnsATextThatGoesRound) {
  Training training(char_model(/*stateful=*/true));
  const double start = training.mini_batch(0) / kSteps;
  EXPECT_NEAR(start, std::log(static_cast<double>(kVocabulary)), 0.2);  // knows nothing
  double loss = start;
  for (int64_t index = 1; index < 120; ++index) loss = training.mini_batch(index) / kSteps;
  EXPECT_LT(loss, 0.15 * start);
}

TEST(RecurrentTraining, LearnsToSpell) {
  Training training(speech_model());
  const double start = training.mini_batch(0);
  double loss = start;
  for (int64_t index = 1; index < 40; ++index) loss = training.mini_batch(index % 3);
  EXPECT_LT(loss, 0.6 * start);
}

TEST(RecurrentTraining, ChunksOfTimeChangeNoBit) {
  for (const Model& model : {char_model(true), char_model(false, 5), speech_model()}) {
    SCOPED_TRACE(model.name);
    std::string expected;
    for (const int32_t chunks : {1, 2, 3, 5, 12}) {
      Training training(model);
      double loss = 0;
      for (int64_t index = 0; index < 3; ++index) loss = training.mini_batch(index, chunks);
      EXPECT_TRUE(std::isfinite(loss));
      if (chunks == 1) expected = training.digest();
      EXPECT_EQ(training.digest(), expected) << chunks << " chunks";
    }
  }
}

// One device under any alignment, with as many micro-batches under way as that takes.
struct Kept {
  std::string digest;
  int64_t activation_bytes = 0;
};
Kept trained_keeping(const Model& model, Alignment alignment, int64_t mini_batch, bool recompute) {
  Training training(model, mini_batch);
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 1);
  request.mini_batch = mini_batch;
  request.micro_batch = training.plan.micro_batch;
  request.optimizer = training.plan.optimizer;
  request.alignment = alignment;
  training.plan = single_device_plan(training.graph, request);
  if (recompute) choose_recomputation(training.plan, training.graph);
  training.segment = std::make_unique<SegmentExecutor>(training.plan, training.graph, 0, *training.device);
  training.segment->initialize(7);
  for (int64_t index = 0; index < 3; ++index) training.mini_batch(index);
  return {training.digest(), training.segment->memory().activation_bytes};
}

TEST(RecurrentTraining, WhatIsMadeAgainChangesNoBit) {
  for (const Model& model : {char_model(true), char_model(false, 5), speech_model()})
    for (const Alignment alignment : {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash, Alignment::kFpdeep}) {
      SCOPED_TRACE(fmt::format("{} {}", model.name, name_of(alignment)));
      const Kept kept = trained_keeping(model, alignment, 6, false), again = trained_keeping(model, alignment, 6, true);
      EXPECT_EQ(again.digest, kept.digest);
      if (alignment == Alignment::kFlush) {
        EXPECT_LT(again.activation_bytes, kept.activation_bytes);
      }
    }
}

// Of so many micro-batches and layers all have a place that is kept, and one where it is made again.
TEST(RecurrentTraining, WhatIsMadeAgainTakesOnePlaceForAllLayers) {
  ModelBuilder net("stack", {1, kSteps, 1});
  net.layer("embedding", Embedding{.vocabulary = kVocabulary, .dimension = 24});
  constexpr int64_t kLayers = 3;
  for (int64_t i = 0; i < kLayers; ++i) net.layer(fmt::format("lstm{}", i), Recurrent{.hidden = 24});
  net.dense("fc", kVocabulary);
  const Model model = with_torch_weights(net);
  const auto saved = [&](int64_t micro_batches) {
    const auto bytes = [&](bool recompute) {
      return trained_keeping(model, Alignment::kFlush, 2 * micro_batches, recompute).activation_bytes;
    };
    return bytes(false) - bytes(true);
  };
  const int64_t place = saved(1) / (kLayers - 1);
  EXPECT_GE(place, 4 * kSteps * 2 * (4 + 2) * 24);  // gates, states and cells of two samples
  for (const int64_t micro_batches : {1, 2, 5}) EXPECT_EQ(saved(micro_batches), place * (kLayers * micro_batches - 1));
}

// The plan counts what training saves of every kind of cell, but for the state before the first step and room for what goes back.
TEST(RecurrentTraining, WhatIsMadeAgainIsCountedInFull) {
  for (const Recurrent& cell :
       {Recurrent{.hidden = 24}, Recurrent{.cell = CellKind::kGru, .hidden = 24}, Recurrent{.cell = CellKind::kVanillaTanh, .hidden = 24},
        Recurrent{.hidden = 32, .projection = 16}, Recurrent{.hidden = 24, .bidirectional = true}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", name_of(Operation(cell)), cell.projection, cell.bidirectional));
    ModelBuilder net("stack", {1, 64, 1});
    net.layer("embedding", Embedding{.vocabulary = kVocabulary, .dimension = 24});
    for (int64_t i = 0; i < 3; ++i) net.layer(fmt::format("rnn{}", i), cell);
    net.dense("fc", kVocabulary);
    const Graph graph(with_torch_weights(net));
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", 1);
    request.mini_batch = 6;
    request.micro_batch = 2;
    request.alignment = Alignment::kFlush;
    Plan plan = single_device_plan(graph, request);
    const auto bytes = [&] {
      const auto device = make_cpu_device();
      return static_cast<double>(SegmentExecutor(plan, graph, 0, *device).memory().activation_bytes);
    };
    const double kept = bytes();
    choose_recomputation(plan, graph);
    const RecomputationFigures figures = figures_of_recomputation(plan, graph);
    const double saved = kept - bytes(), counted = figures.bytes_kept - figures.bytes_shared;
    EXPECT_LE(counted, saved);
    EXPECT_GE(counted, 0.95 * saved);
  }
}

TEST(RecurrentTraining, WhatCannotBeMadeAgainIsRefused) {
  Training training(char_model(false));
  training.plan.time_chunks = 3;
  expect_error(ErrorCode::kUsage, "time is taken in 3 chunks", [&] { choose_recomputation(training.plan, training.graph); });
  training.plan.time_chunks = 1;
  training.plan.alignment = Alignment::kFpdeep;
  training.plan.windows = {2};
  expect_error(ErrorCode::kUsage, "under alignment fpdeep device 0 has newer ones",
               [&] { choose_recomputation(training.plan, training.graph); });
  training.plan.constants.push_back({std::string(kRecompute), 1, "chosen"});
  expect_error(ErrorCode::kUsage, "use --alignment 1f1b",
               [&] { SegmentExecutor segment(training.plan, training.graph, 0, *training.device); });
  ModelBuilder net("dense", {1, 1, 1});
  net.dense("fc", 2);
  const Graph without(net.finish());
  expect_error(ErrorCode::kUsage, "has no recurrent layers", [&] { choose_recomputation(training.plan, without); });
  Training board(char_model(false));
  for (Shard& shard : board.plan.shards) {
    shard.unit = StreamingUnit::kStep;
    shard.phases = {{Phase::kForward, "pe_chain", 0, 1}};
  }
  expect_error(ErrorCode::kUsage, "boards make the steps of all layers", [&] { choose_recomputation(board.plan, board.graph); });
}

TEST(RecurrentTraining, TruncationChangesWhatIsLearned) {
  Training whole(char_model(false)), cut(char_model(false, 5));
  whole.mini_batch(0);
  cut.mini_batch(0);
  EXPECT_NE(weights_digest(whole.weights()), weights_digest(cut.weights()));
}

TEST(RecurrentTraining, CarriedStatesAreNamedAndMove) {
  Training training(char_model(true));
  const std::vector<CarriedState> states = training.segment->carried_states();
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].layer + "." + states[0].tensor, "lstm1.hidden");
  EXPECT_EQ(states[1].layer + "." + states[1].tensor, "lstm1.cell");
  EXPECT_EQ(states[2].layer + "." + states[2].tensor, "gru2.hidden");
  EXPECT_THAT(states[2].dimensions, ::testing::ElementsAre(4, 24));
  std::vector<double> before(4 * 24), after(4 * 24);
  training.segment->read_carried(states[2], before);
  EXPECT_EQ(before, std::vector<double>(4 * 24, 0.0));
  training.mini_batch(0);
  training.segment->read_carried(states[2], after);
  for (const double value : after) EXPECT_NE(value, 0);
  EXPECT_TRUE(Training(char_model(false)).segment->carried_states().empty());
}

// What a checkpoint stores is enough to go on bitwise.
TEST(RecurrentTraining, CarriedStatesResume) {
  Training unbroken(char_model(true));
  for (int64_t index = 0; index < 2; ++index) unbroken.mini_batch(index);
  const TensorMap weights = unbroken.weights(), optimizer = unbroken.optimizer();
  EXPECT_TRUE(optimizer.contains("lstm1.cell#carried"));
  unbroken.mini_batch(2);

  Training resumed(char_model(true));
  write_weights(*resumed.segment, resumed.graph, weights);
  write_optimizer(*resumed.segment, resumed.graph, resumed.plan.optimizer, optimizer);
  resumed.mini_batch(2);
  EXPECT_EQ(resumed.digest(), unbroken.digest());

  TensorMap without = optimizer;
  std::erase_if(without, [](const auto& entry) { return entry.first.ends_with("#carried"); });
  Training from_zero(char_model(true));
  from_zero.mini_batch(0);  // leaves a state that must go
  write_weights(*from_zero.segment, from_zero.graph, weights);
  write_optimizer(*from_zero.segment, from_zero.graph, from_zero.plan.optimizer, without);
  std::vector<double> hidden(4 * 24);
  from_zero.segment->read_carried(from_zero.segment->carried_states()[2], hidden);
  EXPECT_EQ(hidden, std::vector<double>(4 * 24, 0.0));

  // Another mini-batch has other samples in other places.
  Training larger(char_model(true), 8, 2);
  write_optimizer(*larger.segment, larger.graph, larger.plan.optimizer, optimizer);
  std::vector<double> eight(8 * 24);
  larger.segment->read_carried(larger.segment->carried_states()[2], eight);
  EXPECT_EQ(eight, std::vector<double>(8 * 24, 0.0));
}

TEST(RecurrentTraining, FrozenLayersCarryTheirStateToo) {
  Model model = char_model(true);
  for (Layer& layer : model.layers) layer.frozen = layer.name != "fc";
  Training training(model);
  const std::string before = weights_digest(training.weights());
  training.mini_batch(0);
  std::vector<double> hidden(4 * 24);
  training.segment->read_carried(training.segment->carried_states()[0], hidden);
  EXPECT_TRUE(std::ranges::any_of(hidden, [](double value) { return value != 0; }));
  EXPECT_NE(weights_digest(training.weights()), before);
}

TEST(RecurrentTraining, EvaluationLeavesCarriedStatesAlone) {
  Training training(char_model(true));
  training.mini_batch(0);
  const TensorMap before = training.optimizer();
  training.load(2);
  const MicroBatch batch{.index = 0, .training = false, .sample_ids = training.ids, .labels = training.labels};
  Score first, second;
  training.segment->forward(batch, training.tokens, nullptr, &first);
  training.segment->forward(batch, training.tokens, nullptr, &second);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(weights_digest(training.optimizer()), weights_digest(before));
}

TEST(RecurrentTraining, RefusesWhatItCannotKeepInOrder) {
  const Graph graph(char_model(true));
  const auto device = make_cpu_device();
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 1);
  request.mini_batch = 4;
  request.micro_batch = 2;
  request.alignment = Alignment::kFpdeep;
  request.windows = {3};
  const Plan ahead = single_device_plan(graph, request);
  expect_error(ErrorCode::kUnavailable, "layer \"lstm1\" is stateful", [&] { SegmentExecutor segment(ahead, graph, 0, *device); });
}

}  // namespace
}  // namespace millrace
