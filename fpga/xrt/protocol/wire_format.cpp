#include "fpga/xrt/protocol/wire_format.h"

#include <cstring>

#include "core/base/error.h"

namespace millrace::xrt {

namespace {

enum WireKind : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

}  // namespace

void WireWriter::varint(uint64_t value) {
  while (value >= 0x80) {
    message_.push_back(static_cast<uint8_t>(value | 0x80));
    value >>= 7;
  }
  message_.push_back(static_cast<uint8_t>(value));
}

void WireWriter::number(uint32_t field, uint64_t value) {
  tag(field, kVarint);
  varint(value);
}

void WireWriter::fixed64(uint32_t field, uint64_t value) {
  tag(field, kFixed64);
  for (int i = 0; i < 8; ++i) message_.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

void WireWriter::fixed32(uint32_t field, uint32_t value) {
  tag(field, kFixed32);
  for (int i = 0; i < 4; ++i) message_.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

std::span<uint8_t> WireWriter::room(uint32_t field, size_t size) {
  tag(field, kBytes);
  varint(size);
  message_.resize(message_.size() + size);
  return std::span(message_).last(size);
}

void WireWriter::bytes(uint32_t field, std::span<const uint8_t> value) {
  const std::span<uint8_t> place = room(field, value.size());
  if (!value.empty()) std::memcpy(place.data(), value.data(), value.size());
}

void WireWriter::text(uint32_t field, std::string_view value) {
  bytes(field, {reinterpret_cast<const uint8_t*>(value.data()), value.size()});
}

uint64_t WireReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = take(1)[0];
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  fail(ErrorCode::kMalformed, "{}: a number of more than 64 bits", what_);
}

std::span<const uint8_t> WireReader::take(uint64_t size) {
  if (size > rest_.size()) fail(ErrorCode::kMalformed, "{}: it ends {} bytes too early", what_, size - rest_.size());
  const std::span<const uint8_t> taken = rest_.first(size);
  rest_ = rest_.subspan(size);
  return taken;
}

bool WireReader::next() {
  if (rest_.empty()) return false;
  const uint64_t tag = varint();
  if (tag >> 3 == 0 || tag >> 32 != 0) fail(ErrorCode::kMalformed, "{}: a field numbered {}", what_, tag >> 3);
  field_ = static_cast<uint32_t>(tag >> 3);
  is_bytes_ = false;
  number_ = 0;
  bytes_ = {};
  switch (tag & 7) {
    case kVarint: number_ = varint(); break;
    case kFixed64:
    case kFixed32: {
      const std::span<const uint8_t> little = take((tag & 7) == kFixed64 ? 8 : 4);
      for (size_t i = 0; i < little.size(); ++i) number_ |= uint64_t{little[i]} << (8 * i);
      break;
    }
    case kBytes:
      is_bytes_ = true;
      bytes_ = take(varint());
      break;
    default: fail(ErrorCode::kMalformed, "{}: field {} is of kind {}, which does not exist", what_, field_, tag & 7);
  }
  return true;
}

uint64_t WireReader::number() const {
  if (is_bytes_) fail(ErrorCode::kMalformed, "{}: field {} holds bytes, not a number", what_, field_);
  return number_;
}

std::span<const uint8_t> WireReader::bytes() const {
  if (!is_bytes_) fail(ErrorCode::kMalformed, "{}: field {} holds a number, not bytes", what_, field_);
  return bytes_;
}

std::string WireReader::text() const {
  const std::span<const uint8_t> value = bytes();
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

}  // namespace millrace::xrt
