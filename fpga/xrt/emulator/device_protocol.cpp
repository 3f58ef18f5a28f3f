#include <cstring>

#include "core/base/error.h"
#include "fpga/xrt/emulator/device_process.h"
#include "fpga/xrt/protocol/wire_format.h"

namespace millrace::xrt {

namespace {

enum Call : uint32_t {
  kClose = 1,
  kLoadBitstream = 3,
  kAllocate = 4,
  kFree = 5,
  kHostToDevice = 6,
  kDeviceToHost = 7,
  kWriteControl = 9,
  kReadControl = 11,
  kDebugMessages = 19,
  kSetEnvironment = 20,
  kSetupInstance = 28,
  kWriteRegister = 51,
  kReadRegister = 52,
};

// Where the one instance's registers begin; emulation's addresses of registers are those of IP_LAYOUT.
constexpr uint64_t kRegistersMask = kMapBytes - 1;
constexpr uint64_t kMostTransfer = uint64_t{1} << 30;

// A call's fields by number; the last of each counts.
struct Fields {
  Fields(std::span<const uint8_t> message, const std::string& what) {
    WireReader reader(message, what);
    while (reader.next()) {
      if (reader.field() >= kFields) continue;
      present[reader.field()] = true;
      try {
        numbers[reader.field()] = reader.number();
      } catch (const Error&) {
        bytes[reader.field()] = reader.bytes();
      }
    }
  }
  static constexpr size_t kFields = 16;
  bool present[kFields] = {};
  uint64_t numbers[kFields] = {};
  std::span<const uint8_t> bytes[kFields];
};

std::vector<uint8_t> truth(uint32_t field, bool value) {
  WireWriter reply;
  reply.number(field, value ? 1 : 0);
  return reply.take();
}

void put_word(std::span<uint8_t> place, uint32_t word) { std::memcpy(place.data(), &word, std::min<size_t>(place.size(), sizeof(word))); }

}  // namespace

std::vector<uint8_t> DeviceProtocol::reply_to(uint32_t call, std::span<const uint8_t> message) {
  const std::string what = fmt::format("call {} of XRT's shim", call);
  const Fields fields(message, what);
  const auto& number = fields.numbers;
  const auto length_of = [&](uint32_t field, uint64_t most) {
    if (number[field] > most) fail(ErrorCode::kMalformed, "{}: {} bytes; at most {} at once", what, number[field], most);
    return number[field];
  };
  switch (call) {
    case kClose:
      kernel_.wait();
      closed_ = number[3] != 0;
      return truth(1, true);
    case kLoadBitstream: return truth(1, true);  // one design alone
    case kAllocate: {
      kernel_.wait();
      WireWriter reply;
      reply.number(1, memory_.allocate(number[1], number[2]) ? 1 : 0);
      reply.text(2, "");
      return reply.take();
    }
    case kFree: kernel_.wait(); return truth(1, memory_.release(number[1]));
    case kHostToDevice: {
      if (fields.bytes[4].size() < number[5])
        fail(ErrorCode::kMalformed, "{}: {} of {} bytes to write", what, fields.bytes[4].size(), number[5]);
      if (number[5] > 0) std::memcpy(memory_.at(number[3], number[5]).data(), fields.bytes[4].data(), number[5]);
      WireWriter reply;
      reply.number(1, number[5]);
      return reply.take();
    }
    case kDeviceToHost: {
      const uint64_t size = length_of(5, kMostTransfer);
      WireWriter reply;
      reply.number(1, size);
      reply.bytes(2, memory_.at(number[4], size));
      return reply.take();
    }
    case kWriteControl:
      if (fields.bytes[4].size() < number[3])
        fail(ErrorCode::kMalformed, "{}: {} of {} bytes of registers", what, fields.bytes[4].size(), number[3]);
      kernel_.write(number[2] & kRegistersMask, fields.bytes[4].first(number[3]));
      return truth(1, true);
    case kReadControl: {
      WireWriter reply;
      reply.number(1, 1);
      put_word(reply.room(2, length_of(3, kMapBytes)), kernel_.read(number[2] & kRegistersMask));
      return reply.take();
    }
    case kDebugMessages: {
      WireWriter reply;
      for (uint32_t field = 1; field <= 3; ++field) reply.text(field, "");
      return reply.take();
    }
    case kSetEnvironment: return truth(1, true);
    case kSetupInstance: return truth(1, true);
    case kWriteRegister: kernel_.write((number[1] + number[2]) & kRegistersMask, fields.bytes[3]); return truth(1, true);
    case kReadRegister: {
      WireWriter reply;
      reply.number(1, 1);
      put_word(reply.room(2, length_of(3, kMapBytes)), kernel_.read((number[1] + number[2]) & kRegistersMask));
      return reply.take();
    }
    default: fail(ErrorCode::kMalformed, "{}: not one that this device process knows; XRT 2.13 is what it was made for", what);
  }
}

}  // namespace millrace::xrt
