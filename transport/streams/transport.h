// The streams of one rank: messages of flows to and from neighbours in order, with credits, checks, counts and deadlines,
// over any wire (wire.h). A rank's loop is all there is to it: look, send, receive, wait.
//
//   Transport transport(make_ring_wire(session.world()), {.deadline = std::chrono::seconds(30)});
//   Agreement(transport).require_equal("plan and transport settings", digest_of(table));
//   transport.open(table);
//
//   if (transport.has_message(in) && transport.can_send(out)) {
//     const auto input = transport.begin_receive(in, {.index = s}, bytes);    // where it arrived: no copy
//     const auto output = transport.begin_send(out);                          // what will travel: no copy
//     work(input, output);
//     transport.release(in);                                                  // the credit goes back
//     transport.commit_send(out, {.index = s}, output.size());
//   }
//   transport.progress();                                                     // between chunks of work
//   transport.wait(missing);                                                  // fails with kTimeout, naming who and what
//
// Flows between two devices of one rank take the same path, so that nothing depends on the number of ranks. A message may be
// begun only when can_send or has_message said so; one message of a flow is written and one is read at a time.
//
// What may go wrong leaves as Error: kTimeout when a wait passes its deadline; kMismatch or kMalformed when a frame is not the
// one that is due (order, size, checksum, plan), naming the flow and both values; whatever another rank announced by abort().
// Afterwards the transport is of no more use: tell the others with abort() and end.
//
// Owns its wire, which owns the slots; borrows the clock. Used by one thread. Limits: memory_of says what it will allocate.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "transport/streams/aligned_buffer.h"
#include "transport/streams/clock.h"
#include "transport/streams/control_plane.h"
#include "transport/streams/flow_table.h"
#include "transport/streams/lane.h"
#include "transport/streams/message.h"
#include "transport/streams/settings.h"
#include "transport/streams/wire.h"

namespace millrace {

class Transport {
 public:
  explicit Transport(std::unique_ptr<Wire> wire, const TransportSettings& settings = {}, Clock& clock = machine_clock());

  int64_t rank() const { return wire_->rank(); }
  int64_t ranks() const { return wire_->ranks(); }
  const TransportSettings& settings() const { return settings_; }
  // Ranks outnumber the cores they share: a wait sleeps at once, and what it costs is missing elsewhere.
  bool crowded() const;

  // Once; control works before it. Does not wait for the others: they may open later.
  void open(FlowTable table, Deal deal = Deal::kBlocks);
  const FlowTable& table() const { return table_; }
  const RingLayout& layout() const { return layout_; }

  bool can_send(int64_t flow);
  // The whole slot; write from its beginning.
  std::span<std::byte> begin_send(int64_t flow);
  void commit_send(int64_t flow, MessageId id, size_t bytes);

  bool has_message(int64_t flow) const;
  // The oldest unread message. The second form fails with kMismatch unless it is this one and has so many bytes.
  Message begin_receive(int64_t flow);
  std::span<const std::byte> begin_receive(int64_t flow, MessageId id, size_t bytes);
  void release(int64_t flow);

  // Takes in what has arrived, returns credits, pushes what waits. Cheap; call it between chunks of work.
  void progress();
  bool ready(const Interest& interest);
  // Until one of them is ready: its index, the lowest of several. Nothing when a limit came first.
  std::optional<size_t> wait(std::span<const Interest> interests, const WaitLimits& limits = {});

  // Out of band; towards the next rank, round the ring, in order from one rank to another.
  void send_control(int64_t to, uint32_t kind, std::span<const std::byte> payload) { control_.send(to, kind, payload); }
  bool has_control(uint32_t kind) const { return control_.has(kind); }
  std::optional<ControlMessage> take_control(uint32_t kind) { return control_.take(kind); }
  size_t most_control_payload() const { return control_.most_payload(); }
  // Waits for one, with the deadline. `what` and `from` (a rank) name it in errors.
  ControlMessage await_control(uint32_t kind, std::string_view what, int64_t from);

  // Tells all other ranks to give up, as far as a tenth of a second suffices. Their progress() and wait() then throw an Error
  // of this code that names this rank and the reason. Does nothing when another rank did so first.
  void abort(const Error& reason);

  // Messages that were committed or released, of one flow or of all flows of a stream. Exact and free of timing: control,
  // credits and heartbeats are not in them.
  FlowCounters counters(int64_t flow) const;
  FlowCounters counters(Stream stream) const;
  // Everything has left: nothing queued and no slot still being sent.
  bool idle();
  // The end of a run is Agreement::close, which calls these two: waits until everything has left; and, once nobody has
  // anything more to say, says goodbye to the neighbours and waits for theirs, so that nothing is under way any more.
  void drain();
  void leave();
  // What the wait in progress, or the last one, was for: what to say at SIGTERM.
  std::string last_wait() const;

 private:
  static constexpr size_t kNone = SIZE_MAX;

  static void advance(size_t& slot, size_t slots) { slot = slot + 1 == slots ? 0 : slot + 1; }

  struct Sender {
    bool here = false;
    bool eager = false;
    Channel* channel = nullptr;
    uint64_t committed = 0;
    uint64_t credited = 0;
    size_t slot = 0;  // of the next message; slots are counted along, for a division costs as much as the rest of a call
    bool writing = false;
    std::byte* staging = nullptr;  // eager: where a message is written
    Count count;
  };
  // A message that has arrived.
  struct Held {
    MessageId id;
    size_t bytes = 0;
  };
  struct Receiver {
    bool here = false;
    bool eager = false;
    Channel* channel = nullptr;
    uint64_t arrived = 0;
    uint64_t released = 0;
    bool reading = false;
    bool owes = false;            // a credit that has not been returned yet
    std::byte* places = nullptr;  // eager: one per credit
    size_t arrival_slot = 0;
    size_t slot = 0;         // of the oldest message
    std::vector<Held> held;  // by slot
    Count count;
  };
  // A flow as this rank meets it.
  struct FlowEnds {
    size_t lane_id = 0;
    size_t out_lane = kNone;                      // of its own direction, where this rank sends it
    size_t credit_lane = kNone;                   // of the other direction, where this rank receives it
    std::optional<Side> send_side, receive_side;  // where the other end lives; none: on this rank
    Sender sender;
    Receiver receiver;
  };
  // Lanes are named 2 * link, one more for the backward direction.
  static size_t opposite_lane(size_t lane_id) { return lane_id ^ 1; }
  // What shares a link's lane in one direction.
  struct LinkLane {
    Lane lane;
    std::vector<uint32_t> owed;  // flows of the other direction whose credits are to be returned
  };
  enum class Use : uint8_t { kControl, kLane, kFlow };
  // What arrives on a channel of the wire.
  struct Incoming {
    Use use = Use::kControl;
    Channel* channel = nullptr;
    Side side = Side::kNext;
    bool remote = false;
    size_t lane_id = 0;
    size_t flow = 0;
    size_t slots = 1;
    size_t slot = 0;          // of the next frame
    bool left = false;        // the peer said goodbye
    std::string origin = {};  // names the peer
  };

  FlowEnds& ends(int64_t flow);
  const FlowEnds& ends(int64_t flow) const;
  Side side_of_rank(int64_t peer, Side along_the_flow) const;
  void open_lanes();
  void open_flow(size_t flow, std::byte*& place);
  Channel& open_incoming(ChannelSpec spec, Incoming incoming);
  std::string name(size_t flow) const;

  void repost();
  void pump();  // progress() without signs of life of its own
  void accept(const Arrival& arrival);
  void accept_on_lane(const FrameHeader& header, std::span<const std::byte> payload, const Incoming& from);
  void check_data(const FrameHeader& header, std::span<const std::byte> payload, size_t flow);
  void take_data(const FrameHeader& header, size_t flow);
  void take_credit(uint32_t flow, uint32_t count, const Incoming& from);
  void push_bare(FrameKind kind, Lane& lane, std::span<const std::byte> payload);
  void attach_credit(FrameHeader& header, size_t lane);
  void return_credits(LinkLane& lane);
  // Says what is wrong with a frame's checksum, "" when nothing is.
  std::string checksum_problem(const FrameHeader& header, std::span<const std::byte> payload) const;

  std::optional<Side> side_of(const Interest& interest) const;
  std::string describe(const Interest& interest) const;
  std::string describe(const HeartbeatNote& note) const;
  std::optional<size_t> wait_long(std::span<const Interest> interests, const WaitLimits& limits);
  std::optional<size_t> first_ready(std::span<const Interest> interests);
  HeartbeatNote note(const Patience& patience) const;
  // Fails when the deadline has passed, for the interest whose peer has been silent for longest.
  void check_deadline(const Patience& patience, std::span<const Interest> interests, bool while_alive);
  [[noreturn]] void time_out(const Patience& patience, const Interest& interest);

  TransportSettings settings_;
  Clock& clock_;
  std::unique_ptr<Wire> wire_;
  ControlPlane control_;
  FlowTable table_;
  RingLayout layout_;
  uint32_t session_ = 0;
  bool opened_ = false;
  std::vector<FlowEnds> ends_;      // per flow
  std::vector<LinkLane> lanes_;     // outgoing
  std::vector<size_t> lane_of_;     // by lane_id: index into lanes_
  std::vector<Incoming> incoming_;  // by token
  AlignedBuffer arena_;             // of eager flows
  std::vector<Arrival> arrivals_;
  // Places on lanes that were read: posted again by the next call of pump(), when nobody waits for what was in them.
  struct Read {
    Channel* channel;
    size_t slot;
  };
  std::vector<Read> read_;
  Channel* last_sent_ = nullptr;  // of large messages
  size_t last_sent_slot_ = 0;
  Instant next_event_ = kNoInstant;
  uint32_t progress_calls_ = 0;
  std::optional<Interest> waiting_;
  std::string awaited_control_;  // names a control interest
  int64_t awaited_from_ = 0;
  Nanoseconds waited_{};
};

}  // namespace millrace
