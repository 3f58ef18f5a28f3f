#include "transport/streams/control_plane.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace millrace {

namespace {

// Channels of one rank to its neighbours; the transport's own tags follow.
constexpr int64_t kTagToNext = 0;
constexpr int64_t kTagToPrevious = 1;
constexpr size_t kMostUnread = 65536;
constexpr size_t kMostReason = 1024;

struct ControlPreamble {
  int32_t source = 0;
  int32_t to = 0;
  uint32_t kind = 0;
  uint32_t hops = 0;
};
struct AbortPreamble {
  int32_t source = 0;
  int32_t code = 0;
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}
template <typename T>
T preamble_of(std::span<const std::byte> payload, int64_t peer) {
  if (payload.size() < sizeof(T))
    fail(ErrorCode::kMalformed, "a control frame from rank {} has {} bytes, less than the {} it begins with", peer, payload.size(),
         sizeof(T));
  T value;
  std::memcpy(&value, payload.data(), sizeof(T));
  return value;
}

Side opposite(Side side) { return side == Side::kNext ? Side::kPrevious : Side::kNext; }

}  // namespace

ControlPlane::ControlPlane(Wire& wire, const TransportSettings& settings, Clock& clock) : wire_(wire), settings_(settings) {
  if (wire.ranks() == 1) return;
  const Instant now = clock.now();
  for (const Side side : {Side::kNext, Side::kPrevious}) {
    Neighbour& to = neighbour(side);
    to.last_heard = to.last_beat = now;
    ChannelSpec spec;
    spec.peer = peer(side);
    spec.payload_bytes = settings.eager_bytes;
    spec.slots = settings.lane_slots;
    spec.outgoing = true;
    spec.tag = side == Side::kNext ? kTagToNext : kTagToPrevious;
    to.lane.emplace(wire, spec);
    spec.outgoing = false;
    spec.tag = side == Side::kNext ? kTagToPrevious : kTagToNext;  // what the neighbour calls it
    spec.token = incoming_.size();
    incoming_.push_back({side, &wire.open(spec)});
  }
}

int64_t ControlPlane::peer(Side side) const {
  const int64_t step = side == Side::kNext ? 1 : wire_.ranks() - 1;
  return (wire_.rank() + step) % wire_.ranks();
}

void ControlPlane::push(Side side, FrameKind kind, std::span<const std::byte> payload, std::span<const std::byte> rest) {
  Neighbour& to = neighbour(side);
  FrameHeader header;
  header.kind = kind;
  header.sequence = to.frames_sent++;
  header.bytes = payload.size() + rest.size();
  header.checksummed = settings_.checksums;
  if (header.checksummed) header.checksum = frame_checksum(header, payload, rest);
  to.lane->push(header, payload, rest);
}

void ControlPlane::accept(Side side, const FrameHeader& header, std::span<const std::byte> payload) {
  Neighbour& from = neighbour(side);
  if (header.sequence != from.frames_received)
    fail(ErrorCode::kMismatch, "control frame {} arrived from rank {} where frame {} was due; frames were lost or doubled on the way",
         header.sequence, peer(side), from.frames_received);
  ++from.frames_received;
  switch (header.kind) {
    case FrameKind::kHeartbeat: from.note = preamble_of<HeartbeatNote>(payload, peer(side)); return;
    case FrameKind::kControl: accept_control(payload); return;
    case FrameKind::kAbort: accept_abort(side, payload); return;
    case FrameKind::kGoodbye: return;
    default: fail(ErrorCode::kMismatch, "rank {} sent a frame of kind {} as control", peer(side), static_cast<int>(header.kind));
  }
}

void ControlPlane::accept_control(std::span<const std::byte> payload) {
  auto preamble = preamble_of<ControlPreamble>(payload, peer(Side::kPrevious));
  const std::span<const std::byte> content = payload.subspan(sizeof(ControlPreamble));
  const auto ranks = static_cast<uint32_t>(wire_.ranks());
  const auto inside = [&](int32_t rank) { return rank >= 0 && rank < wire_.ranks(); };
  if (!inside(preamble.source) || (preamble.to != kEveryRank && !inside(preamble.to)) || ++preamble.hops >= ranks)
    fail(ErrorCode::kMalformed, "a control message from rank {} to rank {} came by after {} hops in a ring of {} ranks", preamble.source,
         preamble.to, preamble.hops, ranks);
  const bool mine = preamble.to == wire_.rank() || preamble.to == kEveryRank;
  if (mine) keep({preamble.source, preamble.kind, {content.begin(), content.end()}});
  if (preamble.to != wire_.rank() && preamble.hops + 1 < ranks) push(Side::kNext, FrameKind::kControl, bytes_of(preamble), content);
}

void ControlPlane::accept_abort(Side side, std::span<const std::byte> payload) {
  if (aborted_) return;  // it came round the other way, too
  aborted_ = true;
  const auto preamble = preamble_of<AbortPreamble>(payload, peer(side));
  if (preamble.source != peer(opposite(side))) push(opposite(side), FrameKind::kAbort, payload, {});
  const std::span<const std::byte> reason = payload.subspan(sizeof(AbortPreamble));
  const int last = static_cast<int>(ErrorCode::kIo);
  const ErrorCode code = preamble.code >= 0 && preamble.code <= last ? static_cast<ErrorCode>(preamble.code) : ErrorCode::kUnavailable;
  fail(code, "rank {} ended the job: {}", preamble.source, std::string_view(reinterpret_cast<const char*>(reason.data()), reason.size()));
}

void ControlPlane::keep(ControlMessage message) {
  if (message.kind < kFirstReservedKind && inbox_.size() >= kMostUnread)
    fail(ErrorCode::kMismatch, "{} control messages wait unread on rank {}, the last from rank {} of kind {}; nobody takes them",
         inbox_.size(), wire_.rank(), message.source, message.kind);
  inbox_.push_back(std::move(message));
}

void ControlPlane::flush() {
  for (Neighbour& to : neighbours_)
    if (to.lane && !to.lane->empty()) to.lane->flush();
}

bool ControlPlane::drained() {
  return std::all_of(neighbours_.begin(), neighbours_.end(), [](Neighbour& to) { return !to.lane || to.lane->drained(); });
}

void ControlPlane::tick(Instant now, const HeartbeatNote& mine) {
  for (const Side side : {Side::kNext, Side::kPrevious}) {
    Neighbour& to = neighbour(side);
    if (!to.lane) return;
    if (to.heard) to.last_heard = now;
    to.heard = false;
    if (leaving_ || now - to.last_beat < settings_.deadline / 8 || !to.lane->idle()) continue;
    to.last_beat = now;
    push(side, FrameKind::kHeartbeat, bytes_of(mine), {});
  }
}

size_t ControlPlane::most_payload() const { return settings_.eager_bytes - sizeof(ControlPreamble); }

void ControlPlane::send(int64_t to, uint32_t kind, std::span<const std::byte> payload) {
  if (to != kEveryRank && (to < 0 || to >= wire_.ranks()))
    fail(ErrorCode::kUsage, "a control message to rank {}; there are ranks 0 to {}", to, wire_.ranks() - 1);
  if (payload.size() > most_payload())
    fail(ErrorCode::kUsage, "a control message of {} bytes; at most {} fit, larger things are broadcast", payload.size(), most_payload());
  if (to == wire_.rank()) {
    keep({to, kind, {payload.begin(), payload.end()}});
    return;
  }
  if (wire_.ranks() == 1) return;  // nobody else
  const ControlPreamble preamble{static_cast<int32_t>(wire_.rank()), static_cast<int32_t>(to), kind, 0};
  push(Side::kNext, FrameKind::kControl, bytes_of(preamble), payload);
}

bool ControlPlane::has(uint32_t kind) const {
  return std::any_of(inbox_.begin(), inbox_.end(), [kind](const ControlMessage& message) { return message.kind == kind; });
}

std::optional<ControlMessage> ControlPlane::take(uint32_t kind) {
  const auto found = std::find_if(inbox_.begin(), inbox_.end(), [kind](const ControlMessage& message) { return message.kind == kind; });
  if (found == inbox_.end()) return std::nullopt;
  std::optional<ControlMessage> message = std::move(*found);
  inbox_.erase(found);
  return message;
}

void ControlPlane::say_goodbye() {
  leaving_ = true;
  if (wire_.ranks() == 1) return;
  for (const Side side : {Side::kNext, Side::kPrevious}) push(side, FrameKind::kGoodbye, {}, {});
}

void ControlPlane::announce_abort(ErrorCode code, std::string_view reason) {
  if (aborted_ || leaving_ || wire_.ranks() == 1) return;
  aborted_ = true;
  const AbortPreamble preamble{static_cast<int32_t>(wire_.rank()), static_cast<int32_t>(code)};
  const size_t most = std::min(kMostReason, settings_.eager_bytes - sizeof(AbortPreamble));
  const std::span<const char> text(reason.substr(0, most));
  for (const Side side : {Side::kNext, Side::kPrevious}) push(side, FrameKind::kAbort, bytes_of(preamble), std::as_bytes(text));
}

}  // namespace millrace
