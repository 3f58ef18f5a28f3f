// The GPU device on queues of the host: right numbers in any order that its events allow, and wrong ones where an event is missing.
#include "gpu/device/gpu_device.h"

#include <gtest/gtest.h>

#include "core/base/files.h"
#include "core/base/random.h"
#include "gpu/device/algorithm_book.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/train/temporary_folder.h"
#include "tests/gpu/device/device_cases.h"
#include "tests/gpu/device/queued_engine.h"

namespace millrace::testing {
namespace {

TEST(GpuDevice, EveryOperationMatchesTheReferenceInAnyOrderOfItsQueues) {
  int64_t compared = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Queued gpu({.seed = seed});
    EXPECT_EQ(operations_match(*gpu.device, {.per_kind = 25, .seed = 20 + seed}, 1e-5, &compared), "");
  }
  EXPECT_GT(compared, 2000);
}

TEST(GpuDevice, LargerShapesMatchTheReference) {
  Queued gpu({.seed = 9}, {});
  EXPECT_EQ(operations_match(*gpu.device, {.per_kind = 8, .most_channels = 40, .most_extent = 12, .most_batch = 5, .seed = 31}, 1e-5), "");
}

TEST(GpuDevice, TheSameCallsGiveTheSameBitsInAnyOrderOfItsQueues) {
  Queued one({.seed = 5}), other({.seed = 6, .eager = false}, {.staging_bytes = 4096});
  EXPECT_EQ(operations_repeat(*one.device, *other.device, {.per_kind = 10, .seed = 40}), "");
}

TEST(GpuDevice, NarrowPrecisionsRoundTheFactorsOfProductsAndNothingElse) {
  const auto multiplies = [](const KernelSpec& spec) {
    return !spec.finish && (std::holds_alternative<Conv2d>(spec.operation) || std::holds_alternative<Dense>(spec.operation));
  };
  const auto smooth = [&](const KernelSpec& spec) { return multiplies(spec) && !spec.activation; };  // else a kink may flip
  const CaseLimits limits{.per_kind = 25, .most_channels = 12, .seed = 50};
  for (const auto& [precision, tolerance] : {std::pair{gpu::Precision::kBfloat16, 2e-2}, {gpu::Precision::kFloat16, 3e-3}}) {
    SCOPED_TRACE(name_of(precision));
    Queued gpu({}, {.precision = precision});
    EXPECT_EQ(operations_match(*gpu.device, limits, tolerance, smooth), "");
    EXPECT_NE(operations_match(*gpu.device, limits, 1e-5, smooth), "");
    const auto others = [&](const KernelSpec& spec) { return !multiplies(spec) && !std::holds_alternative<Recurrent>(spec.operation); };
    EXPECT_EQ(operations_match(*gpu.device, limits, 1e-5, others), "");
  }
}

TEST(GpuDevice, PlainLoopsStandInForConvolutionsThatALibraryHasNot) {
  const auto convolves = [](const KernelSpec& spec) { return !spec.finish && std::holds_alternative<Conv2d>(spec.operation); };
  Queued gpu({.direct = true});
  EXPECT_EQ(operations_match(*gpu.device, {.per_kind = 60, .seed = 61}, 1e-5, convolves), "");
  Queued narrow({.direct = true}, {.precision = gpu::Precision::kFloat16});
  const auto smooth = [&](const KernelSpec& spec) { return convolves(spec) && !spec.activation; };
  EXPECT_EQ(operations_match(*narrow.device, {.per_kind = 30, .seed = 62}, 3e-3, smooth), "");
}

// Tensor cores take channels last: the passes that round operands and results also move them.
TEST(GpuDevice, OperandsWithChannelsLastGiveTheSameBits) {
  for (const bool direct : {false, true}) {
    const GpuOptions options{.precision = gpu::Precision::kBfloat16, .staging_bytes = 256};
    Queued last({.direct = direct}, options), first({.direct = direct, .channels_last = false}, options);
    EXPECT_EQ(operations_repeat(*last.device, *first.device, {.per_kind = 12, .most_channels = 9, .seed = 63}), "");
  }
}

TEST(GpuDevice, UpdatesAndMovesMatchTheReference) {
  Queued gpu;
  EXPECT_EQ(updates_match(*gpu.device, 1e-6), "");
  EXPECT_EQ(moves_match(*gpu.device), "");
}

// ---- orders

// Samples written into two tensors in turn and convolved into one each, which are read when all are under way: no wait of the host
// stands in for one of the queues.
constexpr int64_t kStreamed = 5;

struct Stream {
  explicit Stream(Device& device) : device_(device) {
    spec_.layer = "conv";
    spec_.operation = Conv2d{.out_channels = 3, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .bias = false};
    spec_.inputs = {{2, 5, 5}};
    spec_.output = {3, 5, 5};
    kernel_ = device.make_kernel(spec_);
    parameters_ = kernel_->make_parameters();
    const std::vector<double> weights = CaseDraw(1, "weights").values(parameters_[0]->elements());
    device.write(*parameters_[0], whole(*parameters_[0]), std::span<const double>(weights));
    for (int64_t i = 0; i < 2; ++i) inputs_.push_back(device.make_tensor({spec_.inputs[0], 1}));
    for (int64_t i = 0; i < kStreamed; ++i) outputs_.push_back(device.make_tensor({spec_.output, 1}));
  }
  void forward(int64_t sample) {
    const size_t at = static_cast<size_t>(sample % 2);
    const std::vector<double> x = CaseDraw(static_cast<uint64_t>(sample), "sample").values(inputs_[at]->elements());
    device_.write(*inputs_[at], whole(*inputs_[at]), std::span<const double>(x));
    const Tensor* input = inputs_[at].get();
    const Tensor* parameter = parameters_[0].get();
    const MicroBatch batch;
    ForwardArguments arguments;
    arguments.inputs = {&input, 1};
    arguments.output = outputs_[static_cast<size_t>(sample)].get();
    arguments.parameters = {&parameter, 1};
    arguments.batch = &batch;
    kernel_->forward(arguments);
  }
  std::vector<double> read(int64_t sample) { return values_of(device_, *outputs_[static_cast<size_t>(sample)]); }

 private:
  Device& device_;
  KernelSpec spec_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::unique_ptr<Tensor>> parameters_, inputs_, outputs_;
};

std::vector<double> streamed(Device& device) {
  Stream stream(device);
  std::vector<double> results;
  for (int64_t sample = 0; sample < kStreamed; ++sample) stream.forward(sample);
  for (const int64_t sample : std::initializer_list<int64_t>{1, 2, 3, 4, 0}) {  // the pinned buffers have waited for the first already
    const std::vector<double> values = stream.read(sample);
    results.insert(results.end(), values.begin(), values.end());
  }
  return results;
}

TEST(GpuDevice, AMissingWaitIsFound) {
  Queued whole_one;
  const std::vector<double> right = streamed(*whole_one.device);
  const int64_t waits = whole_one.engine->waits();
  EXPECT_GT(waits, 8);
  for (int64_t missing = 0; missing < waits; ++missing) {
    bool found = false;
    for (uint64_t seed = 1; seed <= 200 && !found; ++seed) {
      Queued gpu({.seed = seed, .ignored_wait = missing, .eager = seed % 2 == 0});
      found = streamed(*gpu.device) != right;
    }
    EXPECT_TRUE(found) << "wait " << missing << " of " << waits << " was left out, and no order told";
  }
  for (uint64_t seed = 1; seed <= 200; ++seed) EXPECT_EQ(streamed(*Queued({.seed = seed}).device), right) << "seed " << seed;
}

TEST(GpuDevice, CopiesRunBesideCalculations) {
  int64_t beside = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Queued gpu({.seed = seed, .eager = false});
    streamed(*gpu.device);
    beside += gpu.engine->copies_beside_work();
  }
  EXPECT_GT(beside, 10);
}

// ---- what can go wrong

TEST(GpuDevice, MemoryThatRunsOutIsNamedWithWhatWasWantedAndWhatIsFree) {
  Queued gpu({.memory_bytes = 10 << 20});
  auto fits = gpu.device->make_tensor({{64, 64, 64}, 8});  // 8 MiB
  expect_error(ErrorCode::kUnavailable, "4.0 MiB of GPU memory wanted, 2.0 of 10.0 MiB free; take a smaller micro-batch", [&] {
    gpu.device->make_tensor({{64, 64, 64}, 4});
  });
  fits.reset();  // what is given back can be had again
  EXPECT_NE(gpu.device->make_tensor({{64, 64, 64}, 4}), nullptr);
  const size_t before = gpu.engine->used();
  KernelSpec spec;
  spec.layer = "fc6";
  spec.operation = Dense{.out_features = 4096};
  spec.inputs = {{4096, 1, 1}};
  spec.output = {4096, 1, 1};
  spec.bias = true;
  const auto kernel = gpu.device->make_kernel(spec);
  expect_error(ErrorCode::kUnavailable, "layer \"fc6\": parameters: 64.0 MiB of GPU memory wanted", [&] { kernel->make_parameters(); });
  EXPECT_EQ(gpu.engine->used(), before);
}

TEST(GpuDevice, AWorkspaceThatIsTooSmallIsAnErrorOfTheLayer) {
  Queued gpu({}, {.workspace_bytes = 10});
  KernelSpec spec;
  spec.layer = "conv1";
  spec.operation = Conv2d{.out_channels = 2};
  spec.inputs = {{2, 4, 4}};
  spec.output = {2, 4, 4};
  expect_error(ErrorCode::kUnavailable, "no deterministic algorithm fits", [&] { gpu.device->make_kernel(spec); });
}

TEST(GpuDevice, ALabelThatIsNoClassIsRefusedBeforeTheGpuSeesIt) {
  Queued gpu;
  OperationCase c;
  c.spec.layer = "loss";
  c.spec.operation = SoftmaxCrossEntropy{};
  c.spec.inputs = {{3, 1, 1}};
  c.spec.output = {3, 1, 1};
  c.adds = {0};
  CaseData data = data_of(c);
  data.labels = {3};
  expect_error(ErrorCode::kMismatch, "label 3, but the network tells 3 classes apart", [&] { run_case(*gpu.device, c, data); });
}

// ---- choices

TEST(GpuDevice, AlgorithmsAreChosenOncePerShapeAndKeptOnDisk) {
  testing_support::TemporaryFolder folder;
  const GpuOptions options{.measure_algorithms = true, .algorithms = folder.path() / "algorithms.txt"};
  KernelSpec spec;
  spec.layer = "conv1";
  spec.operation = Conv2d{.out_channels = 2};
  spec.inputs = {{2, 4, 4}};
  spec.output = {2, 4, 4};
  {
    Queued gpu({}, options);
    const auto kernel = gpu.device->make_kernel(spec);
    EXPECT_EQ(kernel->implementation(), "FP measured loops, EB measured loops, PG measured loops");
    gpu.device->make_kernel(spec);
    EXPECT_EQ(gpu.engine->choices(), 3);  // FP, EB and PG
    spec.micro_batch = 2;
    gpu.device->make_kernel(spec);
    EXPECT_EQ(gpu.engine->choices(), 6);
  }
  Queued again({}, options);
  again.device->make_kernel(spec);
  EXPECT_EQ(again.engine->choices(), 0);

  {
    Queued narrow({}, {.precision = gpu::Precision::kFloat16, .algorithms = options.algorithms});
    narrow.device->make_kernel(spec);
  }
  const gpu::AlgorithmBook read(options.algorithms, again.engine->facts());
  int layouts[2] = {};
  for (const auto precision : {gpu::Precision::kFloat32, gpu::Precision::kFloat16}) {
    gpu::ConvolutionGeometry g{.samples = 2, .inputs = 2, .height = 4, .width = 4, .outputs = 2, .output_height = 4, .output_width = 4};
    const gpu::ConvolutionChoice* choice = read.find(gpu::convolution_key(g, gpu::ConvolutionPhase::kForward, precision), 1 << 20);
    ASSERT_NE(choice, nullptr);
    ++layouts[choice->channels_last ? 1 : 0];
  }
  EXPECT_EQ(layouts[0], 1);  // of fp32
  EXPECT_EQ(layouts[1], 1);

  gpu::AlgorithmBook elsewhere(options.algorithms, {.name = "another GPU", .architecture = "8.0", .libraries = "CUDA"});
  EXPECT_EQ(elsewhere.find(gpu::convolution_key({}, gpu::ConvolutionPhase::kForward, options.precision), 1 << 20), nullptr);
  write_atomically(options.algorithms, read_text(options.algorithms) + "a line\n");
  expect_error(ErrorCode::kMalformed, "algorithms.txt: line 11 is not key", [&] { Queued broken({}, options); });
  write_atomically(options.algorithms, std::string_view("something else\n"));
  expect_error(ErrorCode::kMalformed, "line 1 is not of a file of GPU algorithms", [&] { Queued broken({}, options); });
}

TEST(GpuDevice, PrecisionsHaveNames) {
  for (const auto precision :
       {gpu::Precision::kFloat32, gpu::Precision::kTensorFloat32, gpu::Precision::kFloat16, gpu::Precision::kBfloat16})
    EXPECT_EQ(gpu_precision_from(name_of(precision)), precision);
  expect_error(ErrorCode::kUsage, "\"bf61\" is no precision of GPUs; did you mean \"bf16\"?", [] { gpu_precision_from("bf61"); });
}

// ---- arithmetic that is written twice

TEST(GpuArithmetic, HalvesRoundToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float here = gpu::float_of_float16(static_cast<uint16_t>(bits));
    EXPECT_EQ(gpu::float16_of(here), bits);
    EXPECT_EQ(gpu::float16_of(-here), bits | 0x8000u);
    if (bits + 1 == 0x7c00) break;
    const float next = gpu::float_of_float16(static_cast<uint16_t>(bits + 1));
    const float middle = here + (next - here) / 2;
    EXPECT_EQ(gpu::float16_of(middle), bits + (bits & 1));
    EXPECT_EQ(gpu::float16_of(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(gpu::float16_of(std::nextafter(middle, INFINITY)), bits + 1);
  }
  EXPECT_EQ(gpu::float16_of(1.0f), 0x3c00);
  EXPECT_EQ(gpu::float16_of(65504.0f), 0x7bff);
  EXPECT_EQ(gpu::float16_of(65519.9f), 0x7bff);
  EXPECT_EQ(gpu::float16_of(65520.0f), 0x7c00);
  EXPECT_TRUE(std::isinf(gpu::float_of_float16(0xfc00)));
  EXPECT_TRUE(std::isnan(gpu::float_of_float16(gpu::float16_of(NAN))));
  EXPECT_TRUE(std::isnan(gpu::float_of_bfloat16(gpu::bfloat16_of(NAN))));
  EXPECT_EQ(gpu::float_of_bfloat16(gpu::bfloat16_of(1.0f + 0x1p-8f)), 1.0f);            // a tie
  EXPECT_EQ(gpu::float_of_bfloat16(gpu::bfloat16_of(1.0f + 0x3p-8f)), 1.0f + 0x1p-6f);  // a tie
  EXPECT_EQ(gpu::float_of_bfloat16(gpu::bfloat16_of(1.0f + 0x1.1p-8f)), 1.0f + 0x1p-7f);
}

TEST(GpuArithmetic, DropoutDrawsTheWordsOfTheSharedMask) {
  const Philox draw(0x123456789abcdefu, 0xfedcba9876543210u);
  for (const uint64_t element : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{1} << 34, (uint64_t{1} << 40) + 3})
    EXPECT_EQ(gpu::philox_word(0x123456789abcdefu, 0xfedcba9876543210u, element), draw.bits(element));
}

}  // namespace
}  // namespace millrace::testing
