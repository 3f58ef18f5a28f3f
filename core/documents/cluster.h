// The cluster document: an ordered ring of devices and the links between neighbours.
//
//   Cluster cluster = load_cluster("lab.textproto");
//   Cluster cpus = uniform_cluster("cpu", 4);
//
// Bandwidth is per direction, in bits per second; an optional shared budget bounds both directions together.
// D devices have D-1 data links; the link that closes the ring carries control only and is not listed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

struct DeviceEntry {
  std::string name;    // unique in the cluster: "cpu0"
  std::string device;  // the catalogue's short name: "cpu", "vc709", "h200"
  std::string host;    // where it is; empty: anywhere
  // The card that fills this place: places of one seat are one card, which computes for one of them at a time. Empty: a card of its own.
  std::string seat = {};
  bool operator==(const DeviceEntry&) const = default;
};

struct LinkEntry {
  double forward_gbps = 0;   // from device i to i+1
  double backward_gbps = 0;  // from device i+1 to i
  double shared_gbps = 0;    // both directions together; 0: no such budget
  double latency_us = 0;
  bool operator==(const LinkEntry&) const = default;
};

struct Cluster {
  std::string name;
  std::vector<DeviceEntry> devices;
  std::vector<LinkEntry> links;  // devices.size() - 1
  bool operator==(const Cluster&) const = default;
};

inline constexpr double kDefaultLinkGbps = 100;
inline constexpr double kDefaultLatencyUs = 0.5;

Cluster uniform_cluster(std::string_view device, int64_t count,
                        const LinkEntry& link = {kDefaultLinkGbps, kDefaultLinkGbps, 0, kDefaultLatencyUs});
// "vc709x15", "u280x8+h200x2", "cpu". Fails with kUsage on anything else. Device names are not looked up here.
// "p100+vu9p~7": two cards that the ring visits seven times in turn, and the first once more behind them; links are one cable.
Cluster parse_cluster_shorthand(std::string_view shorthand);
// The ring of 2 laps + 1 places that two cards fill. Fails with kUsage on any other number of devices.
Cluster folded(const Cluster& pair, int64_t laps);
// "p100+vu9p" and 7; 0 where there are no laps.
std::pair<std::string_view, int64_t> laps_of(std::string_view shorthand);

Cluster parse_cluster(std::string_view text, std::string_view origin);
std::string text_of(const Cluster& cluster);
Cluster load_cluster(const std::filesystem::path& path);
void save(const Cluster& cluster, const std::filesystem::path& path);

}  // namespace millrace
