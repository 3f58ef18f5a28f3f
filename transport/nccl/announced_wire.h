// A wire of two: channels whose payloads lie on an accelerator go over its lines, everything else over a host wire. The host wire also
// carries the headers of those channels, with an announcement each (announcement.h) under the channel's own tag.
//
//   auto wire = std::make_unique<AnnouncedWire>(make_ring_wire(session.world()));
//   wire->attach(std::move(device));                 // before the first of its channels is opened
//   Transport transport(std::move(wire));            // knows nothing of all this
//
// A frame arrives when both its announcement and its payload have; it counts as sent when both have left. Lines are one
// per neighbour, way and direction, opened with the first channel that needs them. Headers lie where the host wire has them.
//
// Owns the host wire and the device, which owns payloads' memory. Nothing blocks but the destructor, as long as the queues' own do.
// Used by one thread at a time. Which accelerator it is says the DeviceSide: GPUs' is nccl_lines.h. Without one, channels with device
// memory are refused with kUnavailable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/nccl/announced_line.h"
#include "transport/streams/wire.h"

namespace millrace {

// As this rank sees a line; the other end names this rank as the peer, and is outgoing when this one is not.
struct LineName {
  int64_t peer = 0;
  bool outgoing = false;
  Direction direction = Direction::kForward;
  bool operator==(const LineName&) const = default;
};
// `sending to rank 1 (forward)`
std::string text_of(const LineName& name);

// The accelerators of this rank.
class DeviceSide {
 public:
  DeviceSide() = default;
  virtual ~DeviceSide() = default;
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;

  // Fails with kUnavailable, saying why, when there is no line to that rank.
  virtual std::unique_ptr<TransferQueue> connect(const LineName& name) = 0;
  // For payloads of that line. On a boundary of 64 bytes at least; must outlive the queues, not this.
  virtual std::shared_ptr<std::byte> allocate(const LineName& name, size_t bytes) = 0;
};

class AnnouncedWire : public Wire {
 public:
  explicit AnnouncedWire(std::unique_ptr<Wire> host, std::unique_ptr<DeviceSide> device = nullptr);
  ~AnnouncedWire() override;

  void attach(std::unique_ptr<DeviceSide> device) { device_ = std::move(device); }

  Channel& open(const ChannelSpec& spec) override;
  Instant progress(std::vector<Arrival>& arrivals) override;

 private:
  class DeviceChannel;
  static constexpr size_t kNone = SIZE_MAX;
  // By the token that the host wire reports.
  struct Incoming {
    size_t token;            // of the channel's user
    size_t channel = kNone;  // in channels_; none: the host wire carries it all
  };
  struct OpenLine {
    LineName name;
    std::unique_ptr<AnnouncedLine> line;
  };

  AnnouncedLine& line_of(const LineName& name);
  void settle(AnnouncedLine& line, std::vector<Arrival>& arrivals);

  std::unique_ptr<Wire> host_;
  std::unique_ptr<DeviceSide> device_;
  std::vector<std::unique_ptr<DeviceChannel>> channels_;
  std::vector<OpenLine> lines_;  // before the memory of channels
  std::vector<Incoming> incoming_;
  std::vector<Arrival> seen_;
  std::vector<Transfer> finished_;
};

}  // namespace millrace
