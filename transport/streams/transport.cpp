#include "transport/streams/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {

namespace {

// The control plane has the tags below.
constexpr int64_t kFirstTag = 2;
// A large message may take long to arrive: credits do not travel with it, but before it. Up to this size a frame of their own costs more
// than they would wait.
constexpr size_t kCarriesCredit = 16384;

size_t lane_id(int64_t link, Direction direction) { return 2 * to_size(link) + (direction == Direction::kForward ? 0 : 1); }
uint32_t session_of(const std::string& digest) {
  uint32_t session = 0;
  std::from_chars(digest.data(), digest.data() + 8, session, 16);
  return session;
}

}  // namespace

Transport::Transport(std::unique_ptr<Wire> wire, const TransportSettings& settings, Clock& clock)
    : settings_((check(settings), settings)), clock_(clock), wire_(std::move(wire)), control_(*wire_, settings_, clock) {
  for (const ControlPlane::Incoming& incoming : control_.incoming())
    incoming_.push_back({.use = Use::kControl,
                         .channel = incoming.channel,
                         .side = incoming.side,
                         .remote = true,
                         .slots = settings_.lane_slots,
                         .origin = fmt::format("rank {}", control_.peer(incoming.side))});
}

Channel& Transport::open_incoming(ChannelSpec spec, Incoming incoming) {
  spec.outgoing = false;
  spec.token = incoming_.size();
  incoming.channel = &wire_->open(spec);
  incoming.slots = spec.slots;
  incoming.remote = spec.peer != rank();
  incoming.origin = fmt::format("rank {}", spec.peer);
  incoming_.push_back(std::move(incoming));
  return *incoming_.back().channel;
}

Transport::FlowEnds& Transport::ends(int64_t flow) {
  MILLRACE_CHECK(flow >= 0 && std::cmp_less(flow, ends_.size()), "flow {} of {}", flow, ends_.size());
  return item(ends_, flow);
}
const Transport::FlowEnds& Transport::ends(int64_t flow) const {
  MILLRACE_CHECK(flow >= 0 && std::cmp_less(flow, ends_.size()), "flow {} of {}", flow, ends_.size());
  return item(ends_, flow);
}

std::string Transport::name(size_t flow) const { return fmt::format("flow {} ({})", flow, text_of(table_.flows[flow])); }

void Transport::open(FlowTable table, Deal deal) {
  MILLRACE_CHECK(!opened_, "a transport is opened once");
  check(table);
  layout_ = ring_layout(table.devices, ranks(), deal);
  table_ = std::move(table);
  session_ = session_of(digest_of(table_));
  ends_.resize(table_.flows.size());

  size_t bytes = 0;  // of eager flows: a place to write, and one per credit to read from
  for (size_t f = 0; f < ends_.size(); ++f) {
    const FlowSpec& spec = table_.flows[f];
    FlowEnds& ends = ends_[f];
    ends.sender.here = layout_.rank_of(spec.from) == rank();
    ends.receiver.here = layout_.rank_of(spec.to) == rank();
    ends.sender.eager = ends.receiver.eager = !spec.device_memory && spec.most_bytes <= settings_.eager_bytes;
    if (!ends.sender.eager) continue;
    if (ends.sender.here) bytes += aligned(spec.most_bytes);
    if (ends.receiver.here) bytes += to_size(spec.credits) * aligned(spec.most_bytes);
  }
  arena_ = AlignedBuffer(bytes);
  open_lanes();
  std::byte* place = arena_.data();
  for (size_t f = 0; f < ends_.size(); ++f)
    if (ends_[f].sender.here || ends_[f].receiver.here) open_flow(f, place);
  opened_ = true;
}

// Where a neighbouring rank stands. Of two ranks each is on both sides of the other: the flow's direction says which. Devices that
// are dealt in turns may go on with the rank behind where the ring of devices closes.
Side Transport::side_of_rank(int64_t peer, Side along_the_flow) const {
  if (peer == rank() || control_.peer(along_the_flow) == peer) return along_the_flow;
  const Side other = along_the_flow == Side::kNext ? Side::kPrevious : Side::kNext;
  MILLRACE_CHECK(control_.peer(other) == peer, "rank {} is no neighbour of rank {}", peer, rank());
  return other;
}

// Of every link with a flow that begins or ends here, both directions: one carries the flow's small messages or those of
// others, the other its credits.
void Transport::open_lanes() {
  lane_of_.assign(2 * to_size(layout_.devices), kNone);
  std::vector<bool> used(to_size(layout_.devices), false);
  for (size_t f = 0; f < ends_.size(); ++f)
    if (ends_[f].sender.here || ends_[f].receiver.here) item(used, link_of(table_, table_.flows[f])) = true;

  for (int64_t link = 0; link < layout_.devices; ++link) {
    if (!item(used, link)) continue;
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      const bool forward = direction == Direction::kForward;
      const int64_t lower = layout_.rank_of(link);
      const int64_t upper = layout_.rank_of((link + 1) % layout_.devices);
      const int64_t from = forward ? lower : upper;
      const int64_t to = forward ? upper : lower;
      const size_t id = lane_id(link, direction);
      ChannelSpec spec{.peer = to,
                       .tag = kFirstTag + static_cast<int64_t>(id),
                       .outgoing = true,
                       .link = link,
                       .direction = direction,
                       .payload_bytes = settings_.eager_bytes,
                       .slots = settings_.lane_slots};
      if (from == rank()) {
        lane_of_[id] = lanes_.size();
        lanes_.push_back({Lane(*wire_, spec), {}});
      }
      if (to == rank()) {
        spec.peer = from;
        open_incoming(spec, {.use = Use::kLane, .side = side_of_rank(from, forward ? Side::kPrevious : Side::kNext), .lane_id = id});
      }
    }
  }
}

void Transport::open_flow(size_t flow, std::byte*& place) {
  const FlowSpec& spec = table_.flows[flow];
  FlowEnds& ends = ends_[flow];
  Sender& sender = ends.sender;
  Receiver& receiver = ends.receiver;
  const Direction direction = direction_of(table_, spec);
  const bool forward = direction == Direction::kForward;
  const int64_t link = link_of(table_, spec);
  const bool remote = !(sender.here && receiver.here);
  const auto credits = to_size(spec.credits);
  ends.lane_id = lane_id(link, direction);
  ChannelSpec channel{.tag = kFirstTag + 2 * layout_.devices + static_cast<int64_t>(flow),
                      .link = link,
                      .direction = direction,
                      .payload_bytes = spec.most_bytes,
                      .slots = credits,
                      .device_memory = spec.device_memory};
  if (sender.here) {
    ends.out_lane = lane_of_[ends.lane_id];
    channel.peer = layout_.rank_of(spec.to);
    if (remote) ends.send_side = side_of_rank(channel.peer, forward ? Side::kNext : Side::kPrevious);
    channel.outgoing = true;
    if (sender.eager) {
      sender.staging = place;
      place += aligned(spec.most_bytes);
    } else {
      sender.channel = &wire_->open(channel);
    }
  }
  if (receiver.here) {
    ends.credit_lane = lane_of_[opposite_lane(ends.lane_id)];
    channel.peer = layout_.rank_of(spec.from);
    const Side side = side_of_rank(channel.peer, forward ? Side::kPrevious : Side::kNext);
    if (remote) ends.receive_side = side;
    receiver.held.resize(credits);
    if (receiver.eager) {
      receiver.places = place;
      place += credits * aligned(spec.most_bytes);
    } else {
      receiver.channel = &open_incoming(channel, {.use = Use::kFlow, .side = side, .lane_id = ends.lane_id, .flow = flow});
    }
  }
}

bool Transport::can_send(int64_t flow) {
  const FlowEnds& ends = this->ends(flow);
  const Sender& sender = ends.sender;
  MILLRACE_CHECK(sender.here, "{} does not begin on rank {}", name(to_size(flow)), rank());
  const auto credits = static_cast<uint64_t>(item(table_.flows, flow).credits);
  if (sender.committed - sender.credited >= credits) return false;
  return sender.eager || sender.channel->sent(sender.slot);
}

std::span<std::byte> Transport::begin_send(int64_t flow) {
  MILLRACE_CHECK(can_send(flow), "{}: no credit; ask can_send first", name(to_size(flow)));
  Sender& sender = ends(flow).sender;
  MILLRACE_CHECK(!sender.writing, "{}: a message is being written already", name(to_size(flow)));
  sender.writing = true;
  const FlowSpec& spec = item(table_.flows, flow);
  if (sender.eager) return {sender.staging, spec.most_bytes};
  return {sender.channel->slot(sender.slot).payload, spec.most_bytes};
}

void Transport::commit_send(int64_t flow, MessageId id, size_t bytes) {
  FlowEnds& ends = this->ends(flow);
  Sender& sender = ends.sender;
  const FlowSpec& spec = item(table_.flows, flow);
  MILLRACE_CHECK(sender.writing, "{}: no message was begun", name(to_size(flow)));
  MILLRACE_CHECK(bytes <= spec.most_bytes, "{}: a message of {} bytes, at most {}", name(to_size(flow)), bytes, spec.most_bytes);
  FrameHeader header;
  header.stream = spec.stream;
  header.flow = static_cast<uint32_t>(flow);
  header.chunk = id.chunk;
  header.index = id.index;
  header.sequence = sender.committed;
  header.bytes = bytes;
  header.session = session_;
  if (bytes <= kCarriesCredit && !spec.device_memory)
    attach_credit(header, ends.out_lane);
  else
    return_credits(lanes_[ends.out_lane]);
  const Slot place = sender.eager ? Slot{nullptr, sender.staging} : sender.channel->slot(sender.slot);
  header.checksummed = settings_.checksums && !spec.device_memory;
  if (header.checksummed) header.checksum = frame_checksum(header, {place.payload, bytes});
  if (sender.eager) {
    lanes_[ends.out_lane].lane.push(header, {place.payload, bytes});
  } else {
    write_header(header, place.header);
    sender.channel->send(sender.slot, bytes);
    last_sent_ = sender.channel;
    last_sent_slot_ = sender.slot;
  }
  sender.writing = false;
  ++sender.committed;
  advance(sender.slot, to_size(spec.credits));
  sender.count += {1, static_cast<int64_t>(bytes)};
}

bool Transport::has_message(int64_t flow) const {
  const Receiver& receiver = ends(flow).receiver;
  MILLRACE_CHECK(receiver.here, "{} does not end on rank {}", name(to_size(flow)), rank());
  return receiver.arrived > receiver.released;
}

Message Transport::begin_receive(int64_t flow) {
  MILLRACE_CHECK(has_message(flow), "{}: no message; ask has_message first", name(to_size(flow)));
  Receiver& receiver = ends(flow).receiver;
  MILLRACE_CHECK(!receiver.reading, "{}: a message is being read already", name(to_size(flow)));
  receiver.reading = true;
  const FlowSpec& spec = item(table_.flows, flow);
  const Held& held = receiver.held[receiver.slot];
  const std::byte* payload =
      receiver.eager ? receiver.places + receiver.slot * aligned(spec.most_bytes) : receiver.channel->slot(receiver.slot).payload;
  return {held.id, {payload, held.bytes}};
}

std::span<const std::byte> Transport::begin_receive(int64_t flow, MessageId id, size_t bytes) {
  const Message message = begin_receive(flow);
  if (message.id != id)
    fail(ErrorCode::kMismatch, "{}: micro-batch {} (chunk {}) arrived where {} (chunk {}) was due; the two ends follow different schedules",
         name(to_size(flow)), message.id.index, message.id.chunk, id.index, id.chunk);
  if (message.payload.size() != bytes)
    fail(ErrorCode::kMismatch, "{}: {} bytes arrived for micro-batch {} where {} were due", name(to_size(flow)), message.payload.size(),
         id.index, bytes);
  return message.payload;
}

void Transport::release(int64_t flow) {
  FlowEnds& ends = this->ends(flow);
  Receiver& receiver = ends.receiver;
  MILLRACE_CHECK(receiver.reading, "{}: no message is being read", name(to_size(flow)));
  const FlowSpec& spec = item(table_.flows, flow);
  if (!receiver.eager) receiver.channel->receive_again(receiver.slot);
  receiver.reading = false;
  receiver.count += {1, static_cast<int64_t>(receiver.held[receiver.slot].bytes)};
  ++receiver.released;
  advance(receiver.slot, to_size(spec.credits));
  if (receiver.owes) return;
  receiver.owes = true;
  lanes_[ends.credit_lane].owed.push_back(static_cast<uint32_t>(flow));
}

FlowCounters Transport::counters(int64_t flow) const { return {ends(flow).sender.count, ends(flow).receiver.count}; }

FlowCounters Transport::counters(Stream stream) const {
  FlowCounters sum;
  for (size_t f = 0; f < ends_.size(); ++f)
    if (table_.flows[f].stream == stream) sum += counters(static_cast<int64_t>(f));
  return sum;
}

}  // namespace millrace
