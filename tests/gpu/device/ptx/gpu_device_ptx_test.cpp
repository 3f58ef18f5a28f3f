// The GPU device with its own kernels as nvcc made them, run by an interpreter: packing, optimizers, norms, element by element and group by
// group, against the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/random.h"
#include "core/device/device_messages.h"
#include "node/ring/wire_format.h"
#include "tests/gpu/device/device_cases.h"
#include "tests/gpu/device/ptx/ptx_recurrences.h"
#include "tests/gpu/device/ptx/ptx_work.h"
#include "tests/gpu/device/queued_engine.h"
#include "tests/gpu/device/ring_cases.h"

namespace millrace::testing {
namespace {

constexpr bool (*kConvolves)(const KernelSpec&) = [](const KernelSpec& spec) {
  return !spec.finish && std::holds_alternative<Conv2d>(spec.operation);
};

std::vector<float> floats_of(const std::vector<double>& values) {
  std::vector<float> narrow;
  for (const double value : values) narrow.push_back(static_cast<float>(value));
  return narrow;
}

// Values to a message of each format and back into another part of a tensor; what differs from the host's way, "" for nothing.
std::string messages_match(const Queued& gpu) {
  Device& device = *gpu.device;
  const auto tensor = device.make_tensor({.shape = {5, 4, 3}, .batch = 2});
  const std::vector<double> values = CaseDraw(3, "messages").values(tensor->elements());
  device.write(*tensor, whole(*tensor), std::span<const double>(values));
  const auto read = [&](ChannelRange channels, StepRange rows) {
    std::vector<float> some(static_cast<size_t>(2 * channels.size() * rows.size() * 3));
    device.read_rows(*tensor, channels, rows, std::span<float>(some));
    return some;
  };
  for (const ElementType wire : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16}) {
    const std::vector<float> host = read({1, 4}, {0, 2});
    std::vector<std::byte> expected(wire_bytes(wire, static_cast<int64_t>(host.size())));
    pack(wire, std::span<const float>(host), expected);
    const std::span<std::byte> payload(static_cast<std::byte*>(gpu.engine->allocate(expected.size())), expected.size());
    messages_of(device)->pack(*tensor, {1, 4}, {0, 2}, wire, payload.data());
    device.synchronize();
    if (!std::ranges::equal(payload, expected)) return "packed as " + std::string(name_of(wire)) + ": other bits";
    std::vector<float> back(host.size());
    unpack(wire, payload, std::span<float>(back));
    messages_of(device)->unpack(*tensor, {2, 5}, {2, 4}, wire, payload.data());
    const bool same = read({2, 5}, {2, 4}) == back;
    gpu.engine->release(payload.data());
    if (!same) return "unpacked from " + std::string(name_of(wire)) + ": other numbers";
  }
  return "";
}

// Running statistics one update further, which a trainer asks for behind a mini-batch.
std::string statistics_match(OwnWork& work) {
  constexpr size_t kChannels = 5;
  std::vector<float> gathered = floats_of(CaseDraw(4, "sums").values(kChannels * 5)), running(4 * kChannels, 0.5f);
  for (size_t c = 0; c < kChannels; ++c) gathered[kChannels + c] = 40 + std::abs(gathered[kChannels + c]), gathered[2 * kChannels + c] = 20;
  std::vector<float> sums[2] = {gathered, gathered}, statistics[2] = {running, running};
  for (const size_t on_gpu : {0U, 1U}) {
    float* const first = statistics[on_gpu].data();
    const gpu::CommitGathered commit{.gathered = sums[on_gpu].data(),
                                     .running_mean = first,
                                     .running_variance = first + kChannels,
                                     .running_error = first + 2 * kChannels,
                                     .running_projection = first + 3 * kChannels,
                                     .momentum = 0.1,
                                     .epsilon = 1e-5,
                                     .elements = kChannels};
    if (on_gpu == 1) work.run(gpu::ElementWork(commit), [](uint64_t, size_t) { return true; });
    for (int64_t c = 0; on_gpu == 0 && c < commit.elements; ++c) commit(c);
  }
  for (size_t i = 0; i < running.size(); ++i)
    if (!(std::abs(statistics[0][i] - statistics[1][i]) < 1e-6f) || statistics[0][i] == running[i])
      return fmt::format("running statistics: {} instead of {}", statistics[1][i], statistics[0][i]);
  return sums[1] == std::vector<float>(gathered.size(), 0.0f) ? "" : "what was gathered stays";
}

TEST(GpuDevicePtx, EveryKernelOfTheDeviceMatchesTheReference) {
  PtxWork work(objects_of_the_module());
  if (work.architectures() == 0) GTEST_SKIP() << "no CUDA compiler: there is no PTX to run";
  int64_t compared = 0;
  {
    Queued gpu({.seed = 3, .own_work = &work});
    EXPECT_EQ(operations_match(*gpu.device, {.per_kind = 12, .seed = 23}, 1e-5, &compared), "");
    const auto gathers = [](const KernelSpec& spec) {
      const auto* norm = std::get_if<BatchNorm>(&spec.operation);
      return norm != nullptr && norm->statistics == Statistics::kRunning && spec.trained;
    };
    EXPECT_EQ(operations_match(*gpu.device, {.per_kind = 60, .seed = 24}, 1e-5, gathers, &compared), "");
    EXPECT_EQ(chunks_match(*gpu.device, 3, 1e-5), "");
    EXPECT_EQ(moves_match(*gpu.device), "");
    EXPECT_EQ(messages_match(gpu), "");
    EXPECT_EQ(updates_match(*gpu.device, 1e-6), "");
  }
  {
    Queued direct({.direct = true, .own_work = &work});
    EXPECT_EQ(operations_match(*direct.device, {.per_kind = 12, .seed = 61}, 1e-5, kConvolves, &compared), "");
  }
  for (const auto& [precision, tolerance] : {std::pair{gpu::Precision::kBfloat16, 2e-2}, {gpu::Precision::kFloat16, 3e-3}}) {
    Queued narrow({.direct = true, .own_work = &work}, {.precision = precision});
    const auto smooth = [&](const KernelSpec& spec) { return kConvolves(spec) && !spec.activation; };
    EXPECT_EQ(operations_match(*narrow.device, {.per_kind = 6, .seed = 62}, tolerance, smooth, &compared), "");
    const auto recurs = [](const KernelSpec& spec) {
      const auto* layer = std::get_if<Recurrent>(&spec.operation);
      return layer != nullptr && layer->cell != CellKind::kVanillaRelu && !spec.activation;
    };
    EXPECT_EQ(operations_match(*narrow.device, {.per_kind = 16, .seed = 63}, 1.5 * tolerance, recurs, &compared), "");
  }
  EXPECT_EQ(statistics_match(work), "");
  EXPECT_GT(compared, 300);
  EXPECT_EQ(work.ran(), work.kernels());
  std::printf("%zu kernels, %lld launches, %zu architectures, %lld results compared\n", work.kernels().size(),
              static_cast<long long>(work.launches()), work.architectures(), static_cast<long long>(compared));
}

// Recurrent layers on the whole of what ships: their kernels' PTX and the device's, in the formats that the device keeps them in. On a GPU
// that holds them, and on one that takes their steps one by one.
TEST(GpuDevicePtx, RecurrentLayersRunOnTheirKernels) {
  const PtxRecurrences recurrences(objects_of_recurrences());
  PtxWork work(objects_of_the_module());
  if (recurrences.architectures() == 0 || work.architectures() == 0) GTEST_SKIP() << "no CUDA compiler: there is no PTX to run";
  size_t turn = 0;
  int64_t compared = 0;
  for (const auto& [precision, bound] :
       {std::pair{gpu::Precision::kFloat32, 1e-5}, {gpu::Precision::kBfloat16, 3e-2}, {gpu::Precision::kFloat16, 4e-3}})
    for (const PtxRecurrences::Gpu gpu : {PtxRecurrences::kH200, PtxRecurrences::kTooSmall}) {
      SCOPED_TRACE(fmt::format("{}, {}", name_of(precision), gpu == PtxRecurrences::kH200 ? "at once" : "step by step"));
      QueuedOptions options{.seed = 4, .own_work = &work};
      options.recurrent.machine = recurrences.on(turn++ % recurrences.architectures(), gpu);
      Queued device(options, {.precision = precision, .staging_bytes = 4096});
      // In sixteen bits a kink may flip.
      const auto recurs = [wide = !gpu::is_narrow(precision)](const KernelSpec& spec) {
        const auto* layer = std::get_if<Recurrent>(&spec.operation);
        return layer != nullptr && layer->hidden > 2 && !spec.activation && (wide || layer->cell != CellKind::kVanillaRelu);
      };
      EXPECT_EQ(
          operations_match(*device.device, {.per_kind = gpu == PtxRecurrences::kH200 ? 60 : 16, .seed = 74}, bound, recurs, &compared), "");
    }
  EXPECT_GT(compared, 100);
  std::printf("%zu architectures, %lld results compared\n", recurrences.architectures(), static_cast<long long>(compared));
}

// A ring whose GPU has all but the first two of ten layers of every cell (gpu_device trains 24), with skips, a projection and both
// directions.
TEST(GpuDevicePtx, DeepStacksLearnOnTheirKernels) {
  const PtxRecurrences recurrences(objects_of_recurrences());
  PtxWork work(objects_of_the_module());
  if (recurrences.architectures() == 0 || work.architectures() == 0) GTEST_SKIP() << "no CUDA compiler: there is no PTX to run";
  for (const auto& [precision, bound] : {std::pair{gpu::Precision::kFloat32, 1e-4}, {gpu::Precision::kBfloat16, 1.5e-1}}) {
    SCOPED_TRACE(name_of(precision));
    QueuedOptions options{.seed = 5, .own_work = &work};
    options.recurrent.machine = recurrences.on(recurrences.architectures() - 1, PtxRecurrences::kH200);
    RingCase c{.gpu = 2, .steps = 1, .compares_changes = gpu::is_narrow(precision)};
    // Four rectified units flip too easily.
    c.network = deep_stack(10, gpu::is_narrow(precision) ? CellKind::kVanillaTanh : CellKind::kVanillaRelu);
    c.open_gpu = [&options, wanted = precision] { return std::move(Queued(options, {.precision = wanted}).device); };
    EXPECT_EQ(ring_matches(c, bound), "");
  }
}

// Sums of a block's threads meet behind barriers: each that is left out is found.
TEST(GpuDevicePtx, AMissingBarrierIsFound) {
  const std::vector<std::string> objects = objects_of_the_module();
  if (PtxWork(objects).architectures() == 0) GTEST_SKIP() << "no CUDA compiler: there is no PTX to run";
  // What a kernel makes of the sums of three channels, beside what the host does.
  std::vector<float> values = floats_of(CaseDraw(9, "sums").values(3 * 700)), sums(3), expected(3);
  gpu::ChannelSum on_host{.values = values.data(), .sums = expected.data(), .plane = 7, .groups = 3, .length = 700};
  for (int64_t channel = 0; channel < 3; ++channel) on_host.finish(channel, gpu::reduced(on_host, channel));
  gpu::ChannelSum sum = on_host;
  sum.sums = sums.data();
  const auto is_right = [&](OwnWork& work) {
    sums.assign(3, NAN);
    work.run(gpu::ReductionWork(sum), [](uint64_t, size_t) { return true; });
    return sums == expected;
  };
  PtxWork whole_one(objects);
  for (int turn = 0; turn < 6; ++turn) EXPECT_TRUE(is_right(whole_one));
  int planted = 0;
  for (int place = 0; place < 2; ++place) {
    bool there = false;
    PtxWork faulty(objects, [&](std::string& text) {
      size_t at = text.rfind(".entry", text.find("run_groupsINS0_10ChannelSum"));
      const size_t end = text.find(".entry", at + 1);
      for (int n = 0; n <= place; ++n) at = text.find("bar.sync", at + 1);
      if (at >= end) return;
      text.insert(at, "// ");
      there = true;
    });
    ASSERT_TRUE(there) << place;
    ++planted;
    // Some schedule tells: launches take theirs in turn.
    bool found = false;
    for (int turn = 0; turn < 9 && !found; ++turn) found = !is_right(faulty);
    EXPECT_TRUE(found) << "barrier " << place << " was left out, and nothing told";
  }
  EXPECT_EQ(planted, 2);
}

// An address that is not the device's is an error, not a wrong number.
TEST(GpuDevicePtx, AnAccessBeyondTheMemoryIsFound) {
  PtxWork work(objects_of_the_module());
  if (work.architectures() == 0) GTEST_SKIP() << "no CUDA compiler: there is no PTX to run";
  std::vector<float> values(40);
  const auto begin = reinterpret_cast<uint64_t>(values.data());
  const OwnWork::MayAccess own = [&](uint64_t address, size_t bytes) { return address >= begin && address + bytes <= begin + 160; };
  work.run(gpu::ElementWork(gpu::straight_copy(values.data(), values.data() + 20, 20, false)), own);
  EXPECT_THROW(work.run(gpu::ElementWork(gpu::straight_copy(values.data(), values.data() + 21, 20, false)), own), rnn::ptx::GridError);
}

}  // namespace
}  // namespace millrace::testing
