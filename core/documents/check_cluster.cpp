// Rules between the fields of a cluster.
#include <map>
#include <unordered_map>

#include "core/documents/cluster_fields.h"

namespace millrace::text {

namespace {

// A card is one device in one host, and has one cable to another card.
void check_seats(const Cluster& cluster, const Path& where) {
  std::map<std::string_view, size_t> cards;
  std::map<std::pair<std::string_view, std::string_view>, std::pair<size_t, LinkEntry>> cables;
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    const DeviceEntry& device = cluster.devices[i];
    if (device.seat.empty()) continue;
    const auto [first, added] = cards.emplace(device.seat, i);
    const DeviceEntry& card = cluster.devices[first->second];
    if (card.device != device.device || card.host != device.host)
      Path(Path(where, "devices", i), "seat")
          .fail("\"{}\" is a {}{} at devices[{}], and this is a {}{}; places of one seat are one card", device.seat, card.device,
                card.host.empty() ? "" : " on " + card.host, first->second, device.device, device.host.empty() ? "" : " on " + device.host);
    if (i == 0 || cluster.devices[i - 1].seat.empty()) continue;
    const DeviceEntry& before = cluster.devices[i - 1];
    if (before.seat == device.seat)
      Path(Path(where, "devices", i), "seat")
          .fail("\"{}\" is that of devices[{}], too; neighbours on one card are one place", device.seat, i - 1);
    const bool turned = device.seat < before.seat;
    LinkEntry link = cluster.links[i - 1];
    if (turned) std::swap(link.forward_gbps, link.backward_gbps);
    const auto pair = turned ? std::pair{std::string_view(device.seat), std::string_view(before.seat)}
                             : std::pair{std::string_view(before.seat), std::string_view(device.seat)};
    const auto [cable, first_link] = cables.emplace(pair, std::pair{i - 1, link});
    if (cable->second.second != link)
      Path(where, "links", i - 1)
          .fail("it is another than links[{}] between the same two seats, which have one cable; make them alike", cable->second.first);
  }
}

}  // namespace

void Fields<Cluster>::check(const Cluster& cluster, const Path& where) {
  if (cluster.devices.empty()) Path(where, "devices").fail("none given; a cluster needs at least one");
  if (std::ssize(cluster.devices) > kMostDevices)
    Path(where, "devices").fail("{} given; at most {} are allowed", cluster.devices.size(), kMostDevices);
  if (cluster.links.size() + 1 != cluster.devices.size())
    Path(where, "links").fail("{} given; {} devices have {}", cluster.links.size(), cluster.devices.size(), cluster.devices.size() - 1);
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    const auto [earlier, added] = seen.emplace(cluster.devices[i].name, i);
    if (!added)
      Path(Path(where, "devices", i), "name")
          .fail("\"{}\" is already the name of devices[{}]; names are unique", cluster.devices[i].name, earlier->second);
  }
  check_seats(cluster, where);
}

}  // namespace millrace::text
