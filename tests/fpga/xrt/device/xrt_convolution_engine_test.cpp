// The engine that sends its phases to a device: the same bits as the functional model, in pieces of any size, and nothing
// believed that the device did not say.
#include "fpga/xrt/device/xrt_convolution_engine.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/core/documents/expect_error.h"
#include "tests/fpga/xrt/device/direct_link.h"
#include "tests/fpga/xrt/device/engine_cases.h"

namespace millrace::xrt {
namespace {

const PhaseShape kShape{
    .convolution = {.inputs = 3, .outputs = 4, .height = 6, .width = 5, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
    .samples = 4,
    .shift = 13};

}  // namespace

TEST(XrtConvolutionEngine, EqualsTheFunctionalModel) {
  const auto host = make_host_convolution_engine();
  for (const size_t piece : {size_t{1}, size_t{700}, size_t{1} << 20}) {
    const auto engine = make_xrt_convolution_engine(std::make_unique<DirectLink>(), {.piece_bytes = piece});
    compare_engines(*host, *engine, 150, piece);
  }
}

TEST(XrtConvolutionEngine, SendsNothingTwice) {
  const auto engine = make_xrt_convolution_engine(std::make_unique<DirectLink>(), {});
  std::mt19937_64 random(1);
  const auto input = random_elements(kShape.input_elements(), random);
  const auto error = random_elements(kShape.output_elements(), random);
  const auto weight = random_elements(kShape.convolution.weight_elements(), random);
  PhaseCounters counters;
  engine->forward(kShape, {.input = input, .weight = weight}, &random, counters);
  EXPECT_EQ(engine->traffic().bytes_sent, static_cast<int64_t>(2 * (input.size() + weight.size())));
  engine->error_back(kShape, error, weight, &random, counters.first);
  EXPECT_EQ(engine->traffic().bytes_sent, static_cast<int64_t>(2 * (input.size() + weight.size() + error.size())));
  // PG needs what FP and EB were given; WU what PG left, and the weights' values once.
  const auto sum = engine->make_gradient_sum(kShape.convolution, false, counters.first);
  sum->add(kShape, input, error);
  EXPECT_EQ(engine->traffic().bytes_sent, static_cast<int64_t>(2 * (input.size() + weight.size() + error.size())));
  std::vector<float> values(weight.size(), 0.5f);
  const UpdateRun update{.arguments = {.optimizer = {.kind = OptimizerKind::kSgd}, .learning_rate = 0.1}, .format = {13}, .stream = 1};
  const auto updated = [&] {
    const int64_t before = engine->traffic().bytes_sent;
    engine->update(update, &random, values, {.sum = sum.get(), .part = 0, .fraction_bits = 20}, {}, {}, counters.first);
    return engine->traffic().bytes_sent - before;
  };
  EXPECT_EQ(updated(), static_cast<int64_t>(sizeof(UpdateBlock) + sizeof(float) * values.size()));
  EXPECT_EQ(updated(), 0);
  // FP finds the weights that WU made.
  std::vector<int16_t> elements;
  for (const float value : values) elements.push_back(quantized(static_cast<double>(value), {13}, counters.first));
  const int64_t before = engine->traffic().bytes_sent;
  engine->forward(kShape, {.input = input, .weight = elements}, &random, counters);
  EXPECT_EQ(engine->traffic().bytes_sent, before);
}

TEST(XrtConvolutionEngine, BelievesOnlyItsOwnResults) {
  std::mt19937_64 random(2);
  const auto input = random_elements(kShape.input_elements(), random);
  const auto weight = random_elements(kShape.convolution.weight_elements(), random);
  const auto damaged = [&](auto change, const std::string& words) {
    auto link = std::make_unique<DirectLink>();
    link->damage = [&change](const PhaseRegisters& registers, DeviceMemory& memory) {
      ResultHeader header;
      const auto place = memory.at(registers.pointers[kResult], sizeof(header));
      std::memcpy(&header, place.data(), sizeof(header));
      change(header);
      std::memcpy(place.data(), &header, sizeof(header));
    };
    const auto engine = make_xrt_convolution_engine(std::move(link), {});
    expect_error(ErrorCode::kUnavailable, words, [&] {
      PhaseCounters counters;
      engine->forward(kShape, {.input = input, .weight = weight}, &random, counters);
    });
  };
  damaged([](ResultHeader& header) { --header.run; }, "the device left no result of run 1 of FP");
  damaged([](ResultHeader& header) { header.mark = 0; }, "the device left no result of run 1 of FP");
  damaged([](ResultHeader& header) { header.status = kBadAddress; }, "FP refused: an address outside of the device's buffers");
}

// A gradient whose last run failed is not used by the update.
TEST(XrtConvolutionEngine, DoesNotUpdateFromAFailedGradient) {
  auto link = std::make_unique<DirectLink>();
  link->damage = [](const PhaseRegisters& registers, DeviceMemory& memory) {
    if (registers.scalars[kPhase] != static_cast<uint32_t>(PhaseCode::kGradient)) return;
    const uint32_t status = kBadShape;
    std::memcpy(memory.at(registers.pointers[kResult] + offsetof(ResultHeader, status), 4).data(), &status, 4);
  };
  const auto engine = make_xrt_convolution_engine(std::move(link), {});
  std::mt19937_64 random(3);
  const auto input = random_elements(kShape.input_elements(), random);
  const auto error = random_elements(kShape.output_elements(), random);
  ArithmeticCounters counters;
  const auto sum = engine->make_gradient_sum(kShape.convolution, false, counters);
  sum->add(kShape, input, error);
  std::vector<float> values(kShape.convolution.weight_elements());
  expect_error(ErrorCode::kUnavailable, "WU refused: a gradient whose phase did not succeed", [&] {
    engine->update({.arguments = {.optimizer = {.kind = OptimizerKind::kSgd}}, .format = {13}, .stream = 1}, &random, values,
                   {.sum = sum.get(), .part = 0, .fraction_bits = 20}, {}, {}, counters);
  });
}

}  // namespace millrace::xrt
