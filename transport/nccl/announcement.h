// What the host wire carries for a frame whose payload stays on the accelerator, beside the frame's header: which place it has in the
// order of its line, how long it is and which channel it belongs to. Internal to transport/nccl.
//
//   write_announcement({.ordinal = 7, .bytes = 4096, .tag = 12}, slot.payload);
//   const Announcement read = parse_announcement({slot.payload, arrived}, "rank 1");
//
// Little endian, fixed offsets, version 1. Fails with kMalformed, naming the origin, on anything that write_announcement cannot
// write. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace millrace {

inline constexpr size_t kAnnouncementBytes = 32;

struct Announcement {
  uint64_t ordinal = 0;  // of the line, from 0, over all its channels
  uint64_t bytes = 0;    // of the payload
  int64_t tag = 0;       // of the channel
  bool operator==(const Announcement&) const = default;
};

void write_announcement(const Announcement& announcement, std::byte* to);
// There may be more bytes than kAnnouncementBytes: a wire may pad.
Announcement parse_announcement(std::span<const std::byte> from, std::string_view origin);

}  // namespace millrace
