// Recurrent layers, embeddings and the CTC loss of the GPU device on queues of the host, their recurrences on the emulator of GPU threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/documents/expect_error.h"
#include "tests/gpu/device/device_cases.h"
#include "tests/gpu/device/queued_engine.h"
#include "tests/gpu/device/ring_cases.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

bool is_recurrent(const KernelSpec& spec) { return std::holds_alternative<Recurrent>(spec.operation); }

const EmulatedRecurrences::Options kNothingFits{.multiprocessors = 0};

TEST(GpuRecurrent, GivesInChunksWhatAProcessorMakesOfTheWhole) {
  Queued gpu({.seed = 3});
  EXPECT_EQ(chunks_match(*gpu.device, 7, 1e-5), "");
  EXPECT_EQ(chunks_match(*gpu.device, 12, 1e-5), "");  // whose rows hold whole 16 bytes
}

TEST(GpuRecurrent, RunsStepByStepWhereTheChipIsTooSmallWithTheSameResults) {
  Queued gpu({.recurrent = kNothingFits});
  int64_t compared = 0;
  EXPECT_EQ(operations_match(*gpu.device, {.per_kind = 60, .seed = 71}, 1e-5, is_recurrent, &compared), "");
  EXPECT_GT(compared, 100);
  EXPECT_EQ(chunks_match(*gpu.device, 7, 1e-5), "");
}

TEST(GpuRecurrent, SaysWhatRunsItAndWhy) {
  const KernelSpec spec = case_of(Recurrent{.hidden = 16}, {3, 5, 1}, 2).spec;
  Queued fits, does_not({.recurrent = kNothingFits});
  EXPECT_THAT(fits.device->make_kernel(spec)->implementation(), HasSubstr("FP all steps at once, LSTM forward fp32 FMA"));
  EXPECT_THAT(fits.device->make_kernel(spec)->implementation(), HasSubstr("EB all steps at once, LSTM backward fp32 FMA"));
  EXPECT_THAT(does_not.device->make_kernel(spec)->implementation(),
              ::testing::StartsWith("step by step, no kernel holds the 1 MiB of recurrent weights of 16 fp32 units"));
}

// Behind a sample's end the recurrence runs on, here beyond all finite numbers.
TEST(GpuRecurrent, WhatLiesBehindTheEndDoesNotMatter) {
  OperationCase c = case_of(Recurrent{.cell = CellKind::kVanillaRelu, .hidden = 8}, {3, 150, 1}, 2);
  CaseData data = data_of(c);
  for (double& weight : data.parameters[1]) weight = std::abs(weight) * 4;
  data.lengths = {3, 2};
  const CaseResult expected = run_case(*make_cpu_device(), c, data);
  Queued gpu;
  EXPECT_EQ(difference_of(run_case(*gpu.device, c, data), expected, 1e-5), "");
  for (const auto precision : {gpu::Precision::kBfloat16, gpu::Precision::kFloat16}) {
    Queued narrow({.recurrent = {.multiprocessors = 0}}, {.precision = precision});  // step by step, in that precision
    EXPECT_EQ(difference_of(run_case(*narrow.device, c, data), expected, 3e-2), "") << name_of(precision);
  }
}

// Rounded factors, with bounds as for the kernels by themselves. A kink may flip, and the gradient of a unit or two may be what is left of
// equals: layers without.
struct NarrowCase {
  gpu::Precision precision;
  double bound;
};
constexpr NarrowCase kNarrow[] = {{gpu::Precision::kBfloat16, 3e-2}, {gpu::Precision::kFloat16, 4e-3}};

bool is_smooth_recurrent(const KernelSpec& spec) {
  const auto* layer = std::get_if<Recurrent>(&spec.operation);
  return layer != nullptr && layer->cell != CellKind::kVanillaRelu && layer->hidden > 2 && !spec.activation;
}

TEST(GpuRecurrent, NarrowPrecisionsKeepStatesAndGateErrorsInSixteenBits) {
  for (const auto& [precision, bound] : kNarrow)
    for (const EmulatedRecurrences::Options& machine : {EmulatedRecurrences::Options{}, kNothingFits}) {
      SCOPED_TRACE(fmt::format("{}, {} multiprocessors", name_of(precision), machine.multiprocessors));
      Queued gpu({.recurrent = machine}, {.precision = precision, .staging_bytes = 256});
      int64_t compared = 0;
      EXPECT_EQ(operations_match(*gpu.device, {.per_kind = 60, .seed = 72}, bound, is_smooth_recurrent, &compared), "");
      EXPECT_GT(compared, 40);
      EXPECT_NE(operations_match(*gpu.device, {.per_kind = 60, .seed = 72}, bound / 100, is_smooth_recurrent), "");
      EXPECT_EQ(chunks_match(*gpu.device, 7, bound), "");
    }
}

TEST(GpuRecurrent, NarrowPrecisionsTakeLessMemoryForAMicroBatch) {
  const KernelSpec spec = case_of(Recurrent{.cell = CellKind::kGru, .hidden = 64, .reset_after = true}, {3, 20, 1}, 4).spec;
  const auto bytes = [&](gpu::Precision precision) {
    return Queued({}, {.precision = precision}).device->make_kernel(spec)->make_keep()->bytes();
  };
  EXPECT_LT(bytes(gpu::Precision::kBfloat16), bytes(gpu::Precision::kFloat32) * 8 / 10);
}

// Of an lstm's step: four gates or their errors, the state, the cell. Two lines of 64 numbers of its own for each direction.
TEST(GpuRecurrent, GatesAndTheirErrorsAreKeptInOnePlace) {
  constexpr int64_t kHidden = 64, kSteps = 20, kSamples = 4;
  const KernelSpec spec = case_of(Recurrent{.hidden = kHidden}, {3, kSteps, 1}, kSamples).spec;
  const int64_t rows = kSteps * kSamples, first = 2 * kSamples * kHidden, carry = kSamples * kHidden;
  EXPECT_EQ(Queued().device->make_kernel(spec)->make_keep()->bytes(), 4 * ((4 + 1 + 1) * rows * kHidden + first + carry));
}

// The emulator has no sixteen-bit kernel for units that rectify.
TEST(GpuRecurrent, ALayerOfWhichOnlyFp32KernelsTakeAllStepsIsFp32AndSaysSo) {
  const OperationCase c = case_of(Recurrent{.cell = CellKind::kVanillaRelu, .hidden = 9}, {3, 6, 1}, 2);
  Queued gpu({}, {.precision = gpu::Precision::kBfloat16});
  EXPECT_THAT(gpu.device->make_kernel(c.spec)->implementation(),
              ::testing::AllOf(HasSubstr("FP all steps at once, ReLU forward fp32"),
                               ::testing::EndsWith("in fp32, for no kernel takes all steps in bf16 at once")));
  const CaseData data = data_of(c);
  EXPECT_EQ(difference_of(run_case(*gpu.device, c, data), run_case(*make_cpu_device(), c, data), 1e-5), "");
  Queued too_small({.recurrent = kNothingFits}, {.precision = gpu::Precision::kBfloat16});
  EXPECT_THAT(too_small.device->make_kernel(c.spec)->implementation(), ::testing::StartsWith("step by step, no kernel holds"));
}

// All steps in one call, both directions together; in as many as chunks and truncation ask for.
TEST(GpuRecurrent, AsksTheEngineForNoMoreCallsThanItMust) {
  const auto calls = [](const Recurrent& cell) {
    Queued gpu;
    const OperationCase c = case_of(cell, {3, 12, 1}, 2);
    run_case(*gpu.device, c, data_of(c));
    return gpu.engine->recurrences();
  };
  EXPECT_EQ(calls({.hidden = 4}), 2);
  EXPECT_EQ(calls({.hidden = 4, .bidirectional = true}), 2);
  EXPECT_EQ(calls({.hidden = 4, .truncation = 5}), 1 + 3);
}

TEST(GpuRecurrent, WhatHangsIsToldAtTheNextCallThatWaits) {
  Queued gpu({.recurrent = {.missing_blocks = 1, .patience = 2'000'000}});
  const OperationCase c = case_of(Recurrent{.hidden = 100}, {3, 5, 1}, 2);
  expect_error(ErrorCode::kUnavailable, "a recurrence on the GPU hung: in step 1 of a call a block waited for another one in vain",
               [&] { run_case(*gpu.device, c, data_of(c)); });
}

TEST(GpuRecurrent, LayersThatDoNotRunAreRefusedByName) {
  Queued gpu;
  OperationCase c = case_of(Recurrent{.hidden = 4, .bidirectional = true, .truncation = 2}, {3, 5, 1}, 1);
  c.spec.layer = "memory";
  expect_error(ErrorCode::kUnavailable,
               "layer \"memory\": lstm of both directions with truncation does not run on GPUs; leave the truncation out, or give its part "
               "of the ring to a processor (cpu)",
               [&] { gpu.device->make_kernel(c.spec); });
  c.spec.operation = Recurrent{.hidden = 4, .gate_activation = GateActivation::kHardSigmoid};
  c.spec.output = {4, 5, 1};
  expect_error(ErrorCode::kUnavailable,
               "layer \"memory\": lstm with gate_activation HARD_SIGMOID does not run on GPUs; train it with SIGMOID",
               [&] { gpu.device->make_kernel(c.spec); });
}

TEST(GpuRecurrent, ATokenBeyondTheVocabularyIsRefusedBeforeTheGpuSeesIt) {
  Queued gpu;
  OperationCase c = case_of(Embedding{.vocabulary = 4, .dimension = 2}, {1, 3, 1}, 1);
  CaseData data = data_of(c);
  data.inputs[0] = {1, 4, 0};
  expect_error(ErrorCode::kMismatch, "token 4 at step 1 of sample 0; the vocabulary has ids 0 to 3",
               [&] { run_case(*gpu.device, c, data); });
}

// ---- rings

TEST(GpuRecurrentRing, LearnsWhatProcessorsLearnInAnyChunksOfTime) {
  for (const int64_t chunks : {1, 3})
    for (int64_t at = 0; at < 3; ++at) {
      SCOPED_TRACE(fmt::format("device {}, {} chunks", at, chunks));
      RingCase c{.gpu = at, .steps = 4, .alignment = at == 1 ? Alignment::kFpdeep : Alignment::kFlush, .chunks = chunks};
      c.network = recurrent_stack();
      c.open_gpu = [at] { return std::move(Queued({.seed = static_cast<uint64_t>(at) + 1}, {}).device); };
      EXPECT_EQ(ring_matches(c, 1e-4), "");
    }
}

// What training made of the weights, beside what processors made of them in fp32.
TEST(GpuRecurrentRing, LearnsInSixteenBitsWhatProcessorsLearn) {
  for (const auto& [precision, bound] : kNarrow)
    for (const int64_t chunks : {1, 3}) {
      SCOPED_TRACE(fmt::format("{}, {} chunks", name_of(precision), chunks));
      RingCase c{.gpu = 1, .steps = 4, .chunks = chunks, .compares_changes = true};
      c.network = recurrent_stack();
      c.open_gpu = [wanted = precision] { return std::move(Queued({.seed = 2}, {.precision = wanted}).device); };
      EXPECT_EQ(ring_matches(c, bound), "");
    }
}

// Roundings of many layers come together: of each weight's change five times the bound of one layer, in 108 layers of all of them at once.
// There fp16 loses twice as much: errors of that many layers are too small for it, and are not scaled.
void train_a_deep_stack_in_sixteen_bits(int64_t layers) {
  for (const auto& [precision, bound] : kNarrow) {
    SCOPED_TRACE(name_of(precision));
    RingCase c{.gpu = 2, .steps = 1, .compares_changes = true, .all_together = layers > 100};
    c.network = deep_stack(layers);
    c.open_gpu = [wanted = precision] { return std::move(Queued({.seed = 5}, {.precision = wanted}).device); };
    EXPECT_EQ(ring_matches(c, (layers > 100 && precision == gpu::Precision::kFloat16 ? 10 : 5) * bound), "");
  }
}

TEST(GpuRecurrentRing, TrainsADeepStackInSixteenBits) { train_a_deep_stack_in_sixteen_bits(24); }
TEST(GpuRecurrentRingLong, TrainsADeepStackInSixteenBits) { train_a_deep_stack_in_sixteen_bits(108); }

void train_a_deep_stack_with_skips(int64_t layers, int64_t steps) {
  RingCase c{.gpu = 2, .steps = steps};  // all but the first two layers
  c.network = deep_stack(layers);
  c.open_gpu = [] { return std::move(Queued({.seed = 5}, {}).device); };
  EXPECT_EQ(ring_matches(c, 1e-4), "");
}

TEST(GpuRecurrentRing, TrainsADeepStackWithSkips) { train_a_deep_stack_with_skips(24, 2); }
TEST(GpuRecurrentRingLong, TrainsADeepStackWithSkips) { train_a_deep_stack_with_skips(108, 1); }

}  // namespace
}  // namespace millrace::testing
