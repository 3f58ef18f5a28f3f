#include "transport/streams/frame.h"

#include <bit>
#include <cstring>

#include "core/base/crc32c.h"
#include "core/base/error.h"

namespace millrace {

static_assert(std::endian::native == std::endian::little, "headers are written as they lie in memory");

namespace {

constexpr uint32_t kMagic = 0x31524c4d;  // "MLR1"
constexpr uint8_t kFlagChecksummed = 1;

constexpr size_t kAtMagic = 0;
constexpr size_t kAtKind = 4;
constexpr size_t kAtStream = 5;
constexpr size_t kAtFlags = 6;
constexpr size_t kAtZero = 7;
constexpr size_t kAtFlow = 8;
constexpr size_t kAtChunk = 12;
constexpr size_t kAtSequence = 16;
constexpr size_t kAtIndex = 24;
constexpr size_t kAtBytes = 32;
constexpr size_t kAtSession = 40;
constexpr size_t kAtCreditFlow = 44;
constexpr size_t kAtCreditCount = 48;
constexpr size_t kAtChecksum = 52;
constexpr size_t kAtStamp = 56;
static_assert(kAtStamp + sizeof(int64_t) == kFrameHeaderBytes);

template <typename T>
void put(std::byte* to, size_t at, T value) {
  std::memcpy(to + at, &value, sizeof(value));
}
template <typename T>
T get(const std::byte* from, size_t at) {
  T value{};
  std::memcpy(&value, from + at, sizeof(value));
  return value;
}

}  // namespace

void write_header(const FrameHeader& header, std::byte* to) {
  put(to, kAtMagic, kMagic);
  put(to, kAtKind, static_cast<uint8_t>(header.kind));
  put(to, kAtStream, static_cast<uint8_t>(header.stream));
  put(to, kAtFlags, static_cast<uint8_t>(header.checksummed ? kFlagChecksummed : 0));
  put(to, kAtZero, uint8_t{0});
  put(to, kAtFlow, header.flow);
  put(to, kAtChunk, header.chunk);
  put(to, kAtSequence, header.sequence);
  put(to, kAtIndex, header.index);
  put(to, kAtBytes, header.bytes);
  put(to, kAtSession, header.session);
  put(to, kAtCreditFlow, header.credit_flow);
  put(to, kAtCreditCount, header.credit_count);
  put(to, kAtChecksum, header.checksum);
  put(to, kAtStamp, int64_t{0});
}

FrameHeader parse_header(std::span<const std::byte> bytes, size_t arrived, std::string_view origin) {
  if (bytes.size() < kFrameHeaderBytes)
    fail(ErrorCode::kMalformed, "a frame from {} has {} bytes, less than a header of {}", origin, bytes.size(), kFrameHeaderBytes);
  const std::byte* from = bytes.data();
  if (const auto magic = get<uint32_t>(from, kAtMagic); magic != kMagic)
    fail(ErrorCode::kMalformed, "a frame from {} begins with {:08x}, expected {:08x}; all ranks must run the same version", origin, magic,
         kMagic);
  const auto kind = get<uint8_t>(from, kAtKind);
  if (kind < static_cast<uint8_t>(FrameKind::kData) || kind > static_cast<uint8_t>(FrameKind::kGoodbye))
    fail(ErrorCode::kMalformed, "a frame from {} is of the unknown kind {}", origin, kind);
  const auto stream = get<uint8_t>(from, kAtStream);
  if (stream > static_cast<uint8_t>(Stream::kState))
    fail(ErrorCode::kMalformed, "a frame from {} is of the unknown stream {}", origin, stream);
  const auto flags = get<uint8_t>(from, kAtFlags);
  if (flags > kFlagChecksummed) fail(ErrorCode::kMalformed, "a frame from {} has unknown flags {:02x}", origin, flags);
  if (const auto zero = get<uint8_t>(from, kAtZero); zero != 0)
    fail(ErrorCode::kMalformed, "a frame from {} has {:02x} where zero is due", origin, zero);

  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind);
  header.stream = static_cast<Stream>(stream);
  header.checksummed = flags == kFlagChecksummed;
  header.flow = get<uint32_t>(from, kAtFlow);
  header.chunk = get<int32_t>(from, kAtChunk);
  header.sequence = get<uint64_t>(from, kAtSequence);
  header.index = get<int64_t>(from, kAtIndex);
  header.bytes = get<uint64_t>(from, kAtBytes);
  header.session = get<uint32_t>(from, kAtSession);
  header.credit_flow = get<uint32_t>(from, kAtCreditFlow);
  header.credit_count = get<uint32_t>(from, kAtCreditCount);
  header.checksum = get<uint32_t>(from, kAtChecksum);
  if (header.bytes > arrived)
    fail(ErrorCode::kMalformed, "a frame from {} for flow {} announces {} bytes and brings {}", origin, header.flow, header.bytes, arrived);
  return header;
}

uint32_t frame_checksum(const FrameHeader& header, std::span<const std::byte> payload, std::span<const std::byte> rest) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  FrameHeader plain = header;
  plain.checksum = 0;
  write_header(plain, bytes.data());
  return crc32c(rest, crc32c(payload, crc32c(bytes)));
}

void write_stamp(std::byte* header, int64_t stamp) { put(header, kAtStamp, stamp); }
int64_t read_stamp(const std::byte* header) { return get<int64_t>(header, kAtStamp); }

}  // namespace millrace
