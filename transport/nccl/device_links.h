// The links of one rank: finds out with its neighbours which wire each takes, brings NCCL's lines about, and carries them.
//
//   DeviceLinks links({.use = LinkUse::kAuto, .driver = driver});
//   Transport transport(links.over(make_ring_wire(session.world())), settings);
//   Agreement agreement(transport);
//   const std::vector<LinkChoice>& chosen = links.choose(transport, agreement, /*devices=*/4, mine);      // all ranks together
//   if (chosen[2].wire == LinkWire::kNccl) table.flows[f].device_memory = true;                          // of a flow on link 2
//   transport.open(table);
//
// All ranks call choose() with their devices; each device tells all others what it is (link_choice.h), the sender of each line makes its
// id, and all that travels by the transport's control messages. Both ends then join, within half of the transport's deadline. A line that
// does not come about leaves its link to MPI, and the choice says why; everybody comes to the same choice. Ends with an error, on every
// rank, only where the transport does.
//
// Owns nothing of the wire, which lives in the transport; the driver is shared with it. One choose() per wire.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/device_messages.h"
#include "transport/nccl/link_choice.h"
#include "transport/nccl/nccl_lines.h"
#include "transport/streams/agreement.h"

namespace millrace {

struct LinkSettings {
  LinkUse use = LinkUse::kAuto;
  std::shared_ptr<LineDriver> driver = nullptr;  // null: this rank has none
  std::string no_driver = "has no NCCL";         // why, as of a device: "device 2 has no NCCL"
};

// A device of this rank.
struct LinkDevice {
  int64_t index = 0;
  std::optional<DeviceLocation> location = std::nullopt;  // none: lines do not reach it
  std::string reason = "is no GPU here";                  // why
};

class DeviceLinks {
 public:
  explicit DeviceLinks(LinkSettings settings) : settings_(std::move(settings)) {}

  const LinkSettings& settings() const { return settings_; }
  // What a transport should have in the place of the host wire.
  std::unique_ptr<Wire> over(std::unique_ptr<Wire> host);

  const std::vector<LinkChoice>& choose(Transport& transport, Agreement& agreement, int64_t devices, std::span<const LinkDevice> mine);
  const std::vector<LinkChoice>& chosen() const { return links_; }
  // Whether there was anything to choose: a device in the ring that lines could reach, or a wish.
  bool had_choice() const { return any_location_ || settings_.use != LinkUse::kAuto; }

 private:
  // A line of a link that takes NCCL, as this rank meets it.
  struct Line {
    size_t link = 0;
    LineName name;
    DeviceLocation location;
    LineId id{};
    std::string problem;
    bool joined = false;
  };

  std::vector<LinkCapability> exchange_capabilities(Transport& transport, Agreement& agreement, int64_t devices,
                                                    std::span<const LinkDevice> mine) const;
  std::vector<Line> lines_here(Transport& transport, std::span<const LinkCapability> capabilities, std::span<const LinkDevice> mine) const;
  void exchange_ids(Agreement& agreement, std::vector<Line>& lines) const;
  void join(Transport& transport, NcclLines& made, std::vector<Line>& lines) const;
  void settle_problems(Agreement& agreement, NcclLines& made, const std::vector<Line>& lines);

  LinkSettings settings_;
  AnnouncedWire* wire_ = nullptr;
  bool any_location_ = false;
  std::vector<LinkChoice> links_;
};

}  // namespace millrace
