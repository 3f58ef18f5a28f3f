// What arrives and what goes back: frames, credits, signs of life.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/check.h"
#include "core/base/index.h"
#include "transport/streams/transport.h"

namespace millrace {

namespace {

constexpr uint32_t kCallsPerTick = 16;  // of progress(): reading the clock costs as much as a poll

}  // namespace

void Transport::progress() {
  pump();
  if (!arrivals_.empty()) pump();  // what follows what came may be asked for now: nobody acts on it here
  if (++progress_calls_ % kCallsPerTick == 0) control_.tick(clock_.now(), {});
}

void Transport::repost() {
  for (const Read& read : read_) read.channel->receive_again(read.slot);
  read_.clear();
}

void Transport::pump() {
  repost();
  arrivals_.clear();
  next_event_ = wire_->progress(arrivals_);
  for (const Arrival& arrival : arrivals_) accept(arrival);
  for (LinkLane& lane : lanes_) return_credits(lane);
  control_.flush();
}

void Transport::accept(const Arrival& arrival) {
  Incoming& from = incoming_[arrival.token];
  const size_t slot = from.slot;
  advance(from.slot, from.slots);
  const Slot place = from.channel->slot(slot);
  const size_t header_bytes = std::min(arrival.frame_bytes, kFrameHeaderBytes);
  const FrameHeader header = parse_header({place.header, header_bytes}, arrival.frame_bytes - header_bytes, from.origin);
  const std::span<const std::byte> payload(place.payload, to_size(header.bytes));
  if (from.remote) control_.heard(from.side);
  if (from.left) fail(ErrorCode::kMismatch, "{} sent a frame after its goodbye", from.origin);
  if (from.use == Use::kFlow) {
    check_data(header, payload, from.flow);
    take_data(header, from.flow);
    take_credit(header.credit_flow, header.credit_count, from);
    return;
  }
  if (header.kind != FrameKind::kData)
    if (const std::string problem = checksum_problem(header, payload); !problem.empty())
      fail(ErrorCode::kMismatch, "a control frame from {} {}", from.origin, problem);
  from.left = header.kind == FrameKind::kGoodbye;
  if (from.use == Use::kControl)
    control_.accept(from.side, header, payload);
  else
    accept_on_lane(header, payload, from);
  read_.push_back({from.channel, slot});
}

void Transport::accept_on_lane(const FrameHeader& header, std::span<const std::byte> payload, const Incoming& from) {
  if (header.kind == FrameKind::kData) {
    const size_t flow = header.flow;
    if (flow >= ends_.size() || !ends_[flow].receiver.here || !ends_[flow].receiver.eager || ends_[flow].lane_id != from.lane_id)
      fail(ErrorCode::kMismatch, "{} sent a message of flow {}, which does not come this way; the ranks follow different plans",
           from.origin, header.flow);
    check_data(header, payload, flow);
    const FlowSpec& spec = table_.flows[flow];
    const Receiver& receiver = ends_[flow].receiver;
    if (!payload.empty()) std::memcpy(receiver.places + receiver.arrival_slot * aligned(spec.most_bytes), payload.data(), payload.size());
    take_data(header, flow);
    take_credit(header.credit_flow, header.credit_count, from);
    return;
  }
  if (header.kind == FrameKind::kGoodbye) return;
  if (header.kind != FrameKind::kCredit || payload.size() % sizeof(CreditNote) != 0)
    fail(ErrorCode::kMismatch, "{} sent a frame of kind {} with {} bytes among the small messages of link {}", from.origin,
         static_cast<int>(header.kind), payload.size(), from.lane_id / 2);
  for (size_t at = 0; at < payload.size(); at += sizeof(CreditNote)) {
    CreditNote note;
    std::memcpy(&note, payload.data() + at, sizeof(note));
    take_credit(note.flow, note.count, from);
  }
}

std::string Transport::checksum_problem(const FrameHeader& header, std::span<const std::byte> payload) const {
  if (header.checksummed != settings_.checksums)
    return fmt::format("comes {} a checksum, and this rank {}; give all ranks the same settings", header.checksummed ? "with" : "without",
                       settings_.checksums ? "expects one" : "expects none");
  if (!header.checksummed) return {};
  const uint32_t seen = frame_checksum(header, payload);
  if (seen == header.checksum) return {};
  return fmt::format("was damaged on the way: the checksum of what arrived is {:08x}, the one sent along {:08x}", seen, header.checksum);
}

void Transport::check_data(const FrameHeader& header, std::span<const std::byte> payload, size_t flow) {
  const FlowSpec& spec = table_.flows[flow];
  const Receiver& receiver = ends_[flow].receiver;
  if (header.bytes > spec.most_bytes)
    fail(ErrorCode::kMismatch, "{}: a message of {} bytes arrived, the largest has {}", name(flow), header.bytes, spec.most_bytes);
  if (!spec.device_memory)
    if (const std::string problem = checksum_problem(header, payload); !problem.empty())
      fail(ErrorCode::kMismatch, "{}, message {} {}", name(flow), header.sequence, problem);
  if (header.kind != FrameKind::kData || header.flow != flow)
    fail(ErrorCode::kMismatch, "{}: a frame of kind {} for flow {} arrived", name(flow), static_cast<int>(header.kind), header.flow);
  if (header.session != session_)
    fail(ErrorCode::kMismatch, "{}: the sender's plan has digest {:08x}, this rank's {:08x}; all ranks must run the same plan and settings",
         name(flow), header.session, session_);
  if (header.stream != spec.stream) fail(ErrorCode::kMismatch, "{}: a message of stream {} arrived", name(flow), name_of(header.stream));
  if (header.sequence != receiver.arrived)
    fail(ErrorCode::kMismatch, "{}: message {} arrived where message {} was due; messages were lost or doubled on the way", name(flow),
         header.sequence, receiver.arrived);
  if (receiver.arrived - receiver.released >= static_cast<uint64_t>(spec.credits))
    fail(ErrorCode::kMismatch, "{}: message {} arrived, and all {} credits were used up", name(flow), header.sequence, spec.credits);
}

void Transport::take_data(const FrameHeader& header, size_t flow) {
  Receiver& receiver = ends_[flow].receiver;
  receiver.held[receiver.arrival_slot] = {{header.index, header.chunk}, to_size(header.bytes)};
  advance(receiver.arrival_slot, receiver.held.size());
  ++receiver.arrived;
}

void Transport::take_credit(uint32_t flow, uint32_t count, const Incoming& from) {
  if (flow == kNoFlow) return;
  // The flow itself goes the other way.
  if (flow >= ends_.size() || !ends_[flow].sender.here || ends_[flow].lane_id != opposite_lane(from.lane_id))
    fail(ErrorCode::kMismatch, "{} returned a credit of flow {}, which this rank does not send it", from.origin, flow);
  Sender& sender = ends_[flow].sender;
  // Credits come with messages and in frames of their own, over different channels: an older count may come later.
  const auto more = static_cast<int32_t>(count - static_cast<uint32_t>(sender.credited));
  if (more <= 0) return;
  if (static_cast<uint64_t>(more) > sender.committed - sender.credited)
    fail(ErrorCode::kMismatch, "{}: {} says that {} messages were released, and {} were sent", name(flow), from.origin,
         sender.credited + static_cast<uint64_t>(more), sender.committed);
  sender.credited += static_cast<uint64_t>(more);
}

void Transport::attach_credit(FrameHeader& header, size_t lane) {
  std::vector<uint32_t>& owed = lanes_[lane].owed;
  if (owed.empty()) return;
  Receiver& receiver = ends_[owed.back()].receiver;
  header.credit_flow = owed.back();
  header.credit_count = static_cast<uint32_t>(receiver.released);
  receiver.owes = false;
  owed.pop_back();
}

// Whatever has been released by now goes back at once, so that nobody waits for a credit that nobody uses; where a message
// was about to leave that way, the credit has gone with it.
void Transport::return_credits(LinkLane& lane) {
  lane.lane.flush();
  if (lane.owed.empty() || !lane.lane.idle()) return;
  std::array<CreditNote, 32> notes;  // 256 bytes: the smallest payload there may be
  const size_t count = std::min(notes.size(), lane.owed.size());
  for (size_t i = 0; i < count; ++i) {
    Receiver& receiver = ends_[lane.owed.back()].receiver;
    notes[i] = {lane.owed.back(), static_cast<uint32_t>(receiver.released)};
    receiver.owes = false;
    lane.owed.pop_back();
  }
  push_bare(FrameKind::kCredit, lane.lane, std::as_bytes(std::span(notes).first(count)));
}

// A frame of a link's lane that belongs to no flow.
void Transport::push_bare(FrameKind kind, Lane& lane, std::span<const std::byte> payload) {
  FrameHeader header;
  header.kind = kind;
  header.bytes = payload.size();
  header.session = session_;
  header.checksummed = settings_.checksums;
  if (header.checksummed) header.checksum = frame_checksum(header, payload);
  lane.push(header, payload);
}

bool Transport::idle() {
  for (LinkLane& lane : lanes_)
    if (!lane.owed.empty() || !lane.lane.drained()) return false;
  for (size_t f = 0; f < ends_.size(); ++f) {
    const Sender& sender = ends_[f].sender;
    if (!sender.here || sender.eager) continue;
    for (size_t slot = 0; slot < to_size(table_.flows[f].credits); ++slot)
      if (!sender.channel->sent(slot)) return false;
  }
  return control_.drained();
}

}  // namespace millrace
