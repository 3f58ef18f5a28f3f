// The emulated device as XRT's shim sees it: calls in, replies out, a kernel that does phases, and nothing that breaks it.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "fpga/xrt/emulator/device_process.h"
#include "fpga/xrt/protocol/wire_format.h"
#include "tests/core/documents/expect_error.h"

namespace millrace::xrt {
namespace {

constexpr uint64_t kBase = 0x1400000;

// The shim's calls, by the numbers of its protocol.
class Shim {
 public:
  Shim() : device_(make_phase_body("functional"), kIdentity, /*memory_bytes=*/1 << 20) {}

  bool allocate(uint64_t address, uint64_t bytes) {
    WireWriter call;
    call.number(1, address);
    call.number(2, bytes);
    call.number(3, 0);
    return number(device_.reply_to(4, call.message()), 1) != 0;
  }
  void write(uint64_t address, std::span<const uint8_t> bytes) {
    WireWriter call;
    call.text(2, "handle");
    call.number(3, address);
    call.bytes(4, bytes);
    call.number(5, bytes.size());
    EXPECT_EQ(number(device_.reply_to(6, call.message()), 1), bytes.size());
  }
  std::vector<uint8_t> read(uint64_t address, uint64_t size) {
    WireWriter call;
    call.number(4, address);
    call.number(5, size);
    return bytes(device_.reply_to(7, call.message()), 2);
  }
  void write_registers(uint64_t offset, std::span<const uint8_t> file) {
    WireWriter call;
    call.number(2, kBase + offset);
    call.number(3, file.size());
    call.bytes(4, file);
    EXPECT_EQ(number(device_.reply_to(9, call.message()), 1), 1u);
  }
  uint32_t read_register(uint32_t call_number, uint64_t offset) {
    WireWriter call;
    call.number(1, call_number == 52 ? kBase : 0);
    call.number(2, call_number == 52 ? offset : kBase + offset);
    call.number(3, 4);
    uint32_t value = 0;
    std::memcpy(&value, bytes(device_.reply_to(call_number, call.message()), 2).data(), sizeof(value));
    return value;
  }
  void start(const PhaseRegisters& registers) {
    std::vector<uint8_t> file(kArgumentsEnd);
    for (size_t i = 0; i < kScalarCount; ++i) std::memcpy(file.data() + scalar_offset(i), &registers.scalars[i], 4);
    for (size_t i = 0; i < kPointerCount; ++i) std::memcpy(file.data() + pointer_offset(i), &registers.pointers[i], 8);
    file[0] = 1;
    write_registers(0, file);
  }
  void wait() {
    while ((read_register(11, 0) & 2) == 0) std::this_thread::yield();
  }
  ResultHeader result(uint64_t address) {
    ResultHeader header;
    std::memcpy(&header, read(address, sizeof(header)).data(), sizeof(header));
    return header;
  }
  DeviceProtocol& device() { return device_; }

 private:
  static uint64_t number(const std::vector<uint8_t>& message, uint32_t field) {
    WireReader reader(message, "reply");
    while (reader.next())
      if (reader.field() == field) return reader.number();
    ADD_FAILURE() << "no field " << field;
    return 0;
  }
  static std::vector<uint8_t> bytes(const std::vector<uint8_t>& message, uint32_t field) {
    WireReader reader(message, "reply");
    while (reader.next())
      if (reader.field() == field) return {reader.bytes().begin(), reader.bytes().end()};
    ADD_FAILURE() << "no field " << field;
    return {};
  }

  DeviceProtocol device_;
};

std::vector<int16_t> random_elements(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int16_t> elements(count);
  for (int16_t& element : elements) element = static_cast<int16_t>(static_cast<int64_t>(random() % 4001) - 2000);
  return elements;
}
template <typename T>
std::span<const uint8_t> raw(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

const PhaseShape kShape{
    .convolution = {.inputs = 3, .outputs = 4, .height = 6, .width = 5, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
    .samples = 2,
    .shift = 13};

}  // namespace

TEST(DeviceProtocol, DoesAPhaseBetweenStartAndDone) {
  Shim shim;
  for (const uint64_t address : {0x10000u, 0x20000u, 0x30000u}) ASSERT_TRUE(shim.allocate(address, 0x8000));
  const auto input = random_elements(kShape.input_elements(), 1);
  const auto weight = random_elements(kShape.convolution.weight_elements(), 2);
  shim.write(0x10000, raw(input));
  shim.write(0x20000, raw(weight));
  EXPECT_EQ(shim.read_register(11, 0), 4u) << "idle";
  PhaseRegisters registers = registers_of(PhaseCode::kForward, kShape, 0, 41);
  registers.pointers = {0x10000, 0, 0x20000, 0, 0x30000};
  shim.start(registers);
  shim.wait();
  EXPECT_EQ(shim.read_register(11, 0), 4u) << "done was read";
  const ResultHeader header = shim.result(0x30000);
  EXPECT_EQ(header.mark, kIdentity);
  EXPECT_EQ(header.run, 41u);
  EXPECT_EQ(header.status, kDone);
  PhaseCounters counters;
  const auto expected = forward_phase(kShape, {.input = input, .weight = weight}, counters);
  const auto found = shim.read(0x30000 + sizeof(header), 2 * expected.size());
  EXPECT_TRUE(std::ranges::equal(found, raw(expected)));
  EXPECT_EQ(header.counters.first.rounded, counters.first.rounded);
}

TEST(DeviceProtocol, SaysWhichRegisterMapItHasAndKeepsIt) {
  Shim shim;
  EXPECT_EQ(shim.read_register(52, kIdentityRegister), kIdentity);
  shim.write_registers(kIdentityRegister, std::vector<uint8_t>(4, 0xff));
  EXPECT_EQ(shim.read_register(52, kIdentityRegister), kIdentity);
  shim.write_registers(scalar_offset(2), std::vector<uint8_t>{5, 6, 7, 8});
  EXPECT_EQ(shim.read_register(52, scalar_offset(2)), 0x08070605u);
  EXPECT_EQ(shim.read_register(52, 0xffc), 0u);
}

TEST(DeviceProtocol, RefusedRunsSayWhy) {
  Shim shim;
  ASSERT_TRUE(shim.allocate(0x10000, 0x8000));
  const auto status_of = [&](PhaseRegisters registers) {
    registers.pointers[kResult] = 0x10000;
    shim.start(registers);
    shim.wait();
    return shim.result(0x10000).status;
  };
  EXPECT_EQ(status_of(registers_of(static_cast<PhaseCode>(9), kShape, 0, 1)), kBadPhase);
  EXPECT_EQ(status_of(registers_of(PhaseCode::kForward, kShape, 0, 1)), kBadAddress);
  PhaseShape bad = kShape;
  bad.convolution.kernel_h = 30;
  EXPECT_EQ(status_of(registers_of(PhaseCode::kForward, bad, 0, 1)), kBadShape);
  bad = kShape;
  bad.convolution.pad_h = bad.convolution.pad_w = bad.convolution.outputs = 1 << 20;
  EXPECT_EQ(status_of(registers_of(PhaseCode::kForward, bad, 0, 1)), kBadShape);
  bad = kShape;
  bad.convolution.groups = 2;
  EXPECT_EQ(status_of(registers_of(PhaseCode::kGradient, bad, 0, 1)), kBadShape);
  // A result that cannot be written: nothing happens, and the device still answers.
  PhaseRegisters nowhere = registers_of(PhaseCode::kForward, kShape, 0, 1);
  nowhere.pointers[kResult] = 0x7000'0000;
  shim.start(nowhere);
  shim.wait();
  EXPECT_EQ(shim.read_register(11, 0), 4u);
}

TEST(DeviceProtocol, KeepsBuffersApart) {
  Shim shim;
  EXPECT_TRUE(shim.allocate(0x1000, 0x1000));
  EXPECT_FALSE(shim.allocate(0x1800, 0x10));
  EXPECT_FALSE(shim.allocate(0x0800, 0x1000));
  EXPECT_TRUE(shim.allocate(0x2000, 0x10));
  EXPECT_FALSE(shim.allocate(0x9000, uint64_t{1} << 40));
  expect_error(ErrorCode::kMalformed, "no buffer holds them", [&] { shim.write(0x1ff0, std::vector<uint8_t>(17)); });
  expect_error(ErrorCode::kMalformed, "no buffer holds them", [&] { shim.read(0x2000, 0x11); });
}

TEST(DeviceProtocol, UnknownCallsAreNamed) {
  Shim shim;
  expect_error(ErrorCode::kMalformed, "call 77 of XRT's shim: not one that this device process knows",
               [&] { shim.device().reply_to(77, {}); });
}

// Whatever bytes come, with a kernel that may be started by them: a reply, or an error.
TEST(DeviceProtocol, SurvivesRandomMessages) {
  std::mt19937_64 random(3);
  Shim shim;
  ASSERT_TRUE(shim.allocate(0x10000, 0x1000));
  static constexpr uint32_t kCalls[] = {3, 4, 5, 6, 7, 9, 11, 19, 20, 28, 51, 52};
  int replies = 0;
  for (int round = 0; round < 20000; ++round) {
    WireWriter call;
    for (uint64_t fields = random() % 8; fields > 0; --fields) {
      const auto field = static_cast<uint32_t>(1 + random() % 8);
      if (random() % 3 == 0)
        call.bytes(field, std::vector<uint8_t>(random() % 300, static_cast<uint8_t>(random())));
      else
        call.number(field, random() % 2 == 0 ? random() % 0x12000 : random() >> (random() % 64));
    }
    std::vector<uint8_t> message = call.take();
    if (!message.empty() && random() % 4 == 0) message[random() % message.size()] = static_cast<uint8_t>(random());
    try {
      shim.device().reply_to(kCalls[random() % std::size(kCalls)], message);
      ++replies;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMalformed) << error.what();
    }
  }
  EXPECT_GT(replies, 1000);
}

}  // namespace millrace::xrt
