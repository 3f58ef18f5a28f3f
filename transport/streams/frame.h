// What travels: frames of a header of 64 bytes and a payload. The header says which flow, which message of it, and how much.
//
//   FrameHeader header{.kind = FrameKind::kData, .stream = Stream::kError, .flow = 3, .sequence = 7, .bytes = 512};
//   write_header(header, slot.header);
//   const FrameHeader read = parse_header({slot.header, kFrameHeaderBytes}, arrived_payload_bytes, "rank 1");
//
// Little endian, fixed offsets, version 1. parse_header accepts exactly what write_header can write and fails with
// kMalformed, naming the origin, the field and its value, on anything else. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/documents/plan.h"

namespace millrace {

inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr uint32_t kNoFlow = UINT32_MAX;

enum class FrameKind : uint8_t {
  kData = 1,   // a message of a flow
  kCredit,     // how many messages of some flows were released; payload: CreditNote[]
  kControl,    // out of band; payload: ControlPreamble and content
  kHeartbeat,  // "I am alive", and what I wait for; payload: HeartbeatNote
  kAbort,      // somebody gave up; payload: AbortPreamble and the reason
  kGoodbye,    // nothing follows on this lane
};

struct FrameHeader {
  FrameKind kind = FrameKind::kData;
  Stream stream = Stream::kControl;
  bool checksummed = false;
  uint32_t flow = kNoFlow;
  int32_t chunk = -1;
  uint64_t sequence = 0;  // of the flow, or of the lane for what belongs to no flow; from 0
  int64_t index = 0;      // micro-batch
  uint64_t bytes = 0;     // of the payload
  uint32_t session = 0;   // of the plan's digest: two ends that run different plans notice at once
  // A credit that rides along: this many messages of that flow, which comes the other way, were released in all.
  uint32_t credit_flow = kNoFlow;
  uint32_t credit_count = 0;  // modulo 2^32
  uint32_t checksum = 0;      // CRC32C of header and payload, when checksummed
  bool operator==(const FrameHeader&) const = default;
};

struct CreditNote {
  uint32_t flow = kNoFlow;
  uint32_t count = 0;
};

void write_header(const FrameHeader& header, std::byte* to);
// `arrived` is how many bytes of payload came with it, or more: a wire may pad.
FrameHeader parse_header(std::span<const std::byte> header, size_t arrived, std::string_view origin);

// Of a header's fields (all but the checksum and the stamp) and a payload that may lie in two parts.
uint32_t frame_checksum(const FrameHeader& header, std::span<const std::byte> payload, std::span<const std::byte> rest = {});

// Eight bytes of the header are the wires' own (shaping notes times there): no part of FrameHeader or of the checksum, and
// zero after write_header.
void write_stamp(std::byte* header, int64_t stamp);
int64_t read_stamp(const std::byte* header);

}  // namespace millrace
