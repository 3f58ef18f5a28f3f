#include "transport/nccl/announcement.h"

#include <concepts>

#include "core/base/error.h"

namespace millrace {

namespace {

constexpr uint32_t kMark = 0x4e41524d;  // "MRAN"
constexpr uint32_t kVersion = 1;

template <std::unsigned_integral Number>
std::byte* put(std::byte* to, Number value) {
  for (size_t i = 0; i < sizeof(Number); ++i) *to++ = static_cast<std::byte>((value >> (8 * i)) & 0xff);
  return to;
}

template <std::unsigned_integral Number>
Number take(const std::byte*& from) {
  Number value = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) value |= static_cast<Number>(*from++) << (8 * i);
  return value;
}

}  // namespace

void write_announcement(const Announcement& announcement, std::byte* to) {
  to = put(to, kMark);
  to = put(to, kVersion);
  to = put(to, announcement.ordinal);
  to = put(to, announcement.bytes);
  put(to, static_cast<uint64_t>(announcement.tag));
}

Announcement parse_announcement(std::span<const std::byte> from, std::string_view origin) {
  if (from.size() < kAnnouncementBytes)
    fail(ErrorCode::kMalformed, "{}: an announcement of {} bytes, expected {}", origin, from.size(), kAnnouncementBytes);
  const std::byte* at = from.data();
  const auto mark = take<uint32_t>(at);
  if (mark != kMark) fail(ErrorCode::kMalformed, "{}: an announcement begins with {:08x}, expected {:08x}", origin, mark, kMark);
  const auto version = take<uint32_t>(at);
  if (version != kVersion)
    fail(ErrorCode::kMalformed, "{}: an announcement of version {}, expected {}; run the same Millrace on all ranks", origin, version,
         kVersion);
  Announcement read;
  read.ordinal = take<uint64_t>(at);
  read.bytes = take<uint64_t>(at);
  read.tag = static_cast<int64_t>(take<uint64_t>(at));
  return read;
}

}  // namespace millrace
