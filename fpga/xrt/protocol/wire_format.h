// Messages between processes, in the wire format of Protocol Buffers: XRT's emulation speaks it, and so do our own processes.
//
//   WireWriter writer;
//   writer.number(1, address);
//   writer.bytes(2, data);
//   send(writer.take());
//   WireReader reader(message, "a call of the shim");
//   while (reader.next()) if (reader.field() == 1) address = reader.number();
//
// Fields come in the order they were written; unknown ones are the caller's to pass over, by doing nothing. Numbers may be
// varints, fixed32 or fixed64 and are 64 bits wide here. Fails with kMalformed where a message ends in the middle of a
// field or has one of a kind that does not exist. A reader's bytes are the message's, not copies. Internal to fpga/xrt.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::xrt {

class WireWriter {
 public:
  void number(uint32_t field, uint64_t value);  // varint
  void fixed64(uint32_t field, uint64_t value);
  void fixed32(uint32_t field, uint32_t value);
  void bytes(uint32_t field, std::span<const uint8_t> value);
  void text(uint32_t field, std::string_view value);
  // A field of `size` bytes, to be filled by the caller before anything else is written.
  std::span<uint8_t> room(uint32_t field, size_t size);

  const std::vector<uint8_t>& message() const { return message_; }
  std::vector<uint8_t> take() { return std::move(message_); }

 private:
  void varint(uint64_t value);
  void tag(uint32_t field, uint32_t kind) { varint(uint64_t{field} << 3 | kind); }

  std::vector<uint8_t> message_;
};

class WireReader {
 public:
  WireReader(std::span<const uint8_t> message, std::string_view what) : rest_(message), what_(what) {}

  bool next();  // false behind the last field
  uint32_t field() const { return field_; }
  uint64_t number() const;                 // kMalformed where the field is bytes
  std::span<const uint8_t> bytes() const;  // kMalformed where it is a number
  std::string text() const;

 private:
  uint64_t varint();
  std::span<const uint8_t> take(uint64_t size);

  std::span<const uint8_t> rest_;
  std::string what_;
  uint32_t field_ = 0;
  bool is_bytes_ = false;
  uint64_t number_ = 0;
  std::span<const uint8_t> bytes_;
};

}  // namespace millrace::xrt
