// For Transport, which holds one: what ranks tell each other besides the flows. Control messages travel round the ring of ranks,
// towards the next rank, until they reach whom they are for; heartbeats go to both neighbours; an abort floods both ways.
//
//   ControlPlane control(wire, settings, clock);
//   control.send(/*to=*/0, kind, payload);
//   control.accept(side, header, payload);          // for every frame that arrived from that side
//   control.tick(clock.now(), note);                // now and then: heartbeats
//
// Borrows wire and clock. Limits: a control message fits into one frame, and 65,536 may wait unread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "transport/streams/clock.h"
#include "transport/streams/frame.h"
#include "transport/streams/lane.h"
#include "transport/streams/message.h"
#include "transport/streams/settings.h"
#include "transport/streams/wire.h"

namespace millrace {

enum class Side : uint8_t { kNext, kPrevious };

// What a rank waits for, as its neighbours hear of it.
struct HeartbeatNote {
  uint32_t flow = kNoFlow;
  uint32_t want = 0;  // a Want
  int64_t index = 0;
  int64_t waited = 0;  // nanoseconds; 0: does not wait
};

class ControlPlane {
 public:
  ControlPlane(Wire& wire, const TransportSettings& settings, Clock& clock);

  // The channels that control frames arrive on, one per side, numbered as their tokens say; none in a ring of one.
  struct Incoming {
    Side side;
    Channel* channel;
  };
  const std::vector<Incoming>& incoming() const { return incoming_; }
  int64_t peer(Side side) const;

  // Throws the error of whoever aborted the job.
  void accept(Side side, const FrameHeader& header, std::span<const std::byte> payload);
  // Any frame is a sign of life.
  void heard(Side side) { item(neighbours_, side).heard = true; }
  Instant last_heard(Side side) const { return item(neighbours_, side).last_heard; }
  // What the neighbour said last about what it waits for.
  const HeartbeatNote& note_of(Side side) const { return item(neighbours_, side).note; }

  void flush();
  void tick(Instant now, const HeartbeatNote& mine);
  bool drained();

  size_t most_payload() const;
  // To a rank, or to kEveryRank but this one.
  void send(int64_t to, uint32_t kind, std::span<const std::byte> payload);
  bool has(uint32_t kind) const;
  std::optional<ControlMessage> take(uint32_t kind);

  // The last frame to either neighbour.
  void say_goodbye();
  void announce_abort(ErrorCode code, std::string_view reason);

 private:
  struct Neighbour {
    std::optional<Lane> lane;
    uint64_t frames_sent = 0;
    uint64_t frames_received = 0;
    bool heard = false;
    Instant last_heard{};
    Instant last_beat{};
    HeartbeatNote note;
  };
  Neighbour& neighbour(Side side) { return item(neighbours_, side); }
  void push(Side side, FrameKind kind, std::span<const std::byte> payload, std::span<const std::byte> rest);
  void accept_control(std::span<const std::byte> payload);
  void accept_abort(Side side, std::span<const std::byte> payload);
  void keep(ControlMessage message);

  Wire& wire_;
  TransportSettings settings_;
  std::array<Neighbour, 2> neighbours_;
  std::vector<Incoming> incoming_;
  std::deque<ControlMessage> inbox_;
  bool aborted_ = false;
  bool leaving_ = false;
};

}  // namespace millrace
