// Clusters in one word, for the command line: "vc709x15", "u280x8+h200x2", "cpu".
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/documents/cluster_fields.h"
#include "core/documents/cluster_names.h"

namespace millrace {
namespace {

constexpr std::string_view kForm = "write DEVICE or DEVICExCOUNT, joined by +, for example vc709x15 or u280x8+h200x2";

struct Run {
  std::string_view device;
  int64_t count;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The count follows the last x, where nothing but digits follows it and something precedes it: "vu9px3", "u280".
Run run_of(std::string_view part, std::string_view whole) {
  Run run{part, 1};
  const size_t x = part.rfind('x');
  const bool counted = x != std::string_view::npos && x > 0 && x + 1 < part.size() &&
                       std::all_of(part.begin() + static_cast<std::ptrdiff_t>(x) + 1, part.end(), is_digit);
  if (counted) {
    run.device = part.substr(0, x);
    const std::string_view digits = part.substr(x + 1);
    const auto [end, reason] = std::from_chars(digits.data(), digits.data() + digits.size(), run.count);
    if (reason != std::errc{} || run.count < 1 || run.count > text::kMostDevices)
      fail(ErrorCode::kUsage, "cluster \"{}\": {} devices are asked for in \"{}\"; a cluster has 1 to {}", whole, digits, part,
           text::kMostDevices);
  }
  if (!text::is_name(run.device)) fail(ErrorCode::kUsage, "cluster \"{}\": \"{}\" names no device; {}", whole, part, kForm);
  return run;
}

Cluster cluster_of(const std::vector<Run>& runs, std::string name, const LinkEntry& link) {
  Cluster cluster;
  cluster.name = std::move(name);
  for (const Run& run : runs)
    for (int64_t i = 0; i < run.count; ++i)
      cluster.devices.push_back({default_device_name(run.device, cluster.devices.size()), std::string(run.device), {}});
  cluster.links.assign(cluster.devices.size() - 1, link);
  return cluster;
}

}  // namespace

std::string default_device_name(std::string_view device, size_t place) {
  const bool digits_would_join = !device.empty() && is_digit(device.back());
  return fmt::format("{}{}{}", device, digits_would_join ? "-" : "", place);
}

Cluster uniform_cluster(std::string_view device, int64_t count, const LinkEntry& link) {
  if (count < 1 || count > text::kMostDevices)
    fail(ErrorCode::kUsage, "a cluster of {} devices \"{}\": it has 1 to {}", count, device, text::kMostDevices);
  std::string name = count == 1 ? std::string(device) : fmt::format("{}x{}", device, count);
  const Cluster cluster = cluster_of({{device, count}}, std::move(name), link);
  text::Codec<Cluster>::check(cluster, text::Path("cluster", ErrorCode::kUsage));
  return cluster;
}

std::pair<std::string_view, int64_t> laps_of(std::string_view shorthand) {
  const size_t mark = shorthand.find('~');
  if (mark == std::string_view::npos) return {shorthand, 0};
  const std::string_view digits = shorthand.substr(mark + 1);
  int64_t laps = 0;
  const auto [end, reason] = std::from_chars(digits.data(), digits.data() + digits.size(), laps);
  if (reason != std::errc{} || end != digits.data() + digits.size() || laps < 1 || 2 * laps + 1 > text::kMostDevices)
    fail(ErrorCode::kUsage,
         "cluster \"{}\": \"{}\" is no number of laps; write two cards and how often the ring visits them, as p100+vu9p~7", shorthand,
         digits);
  return {shorthand.substr(0, mark), laps};
}

Cluster folded(const Cluster& pair, int64_t laps) {
  if (pair.devices.size() != 2)
    fail(ErrorCode::kUsage, "laps are of two cards, and cluster \"{}\" has {}; write them as p100+vu9p~7", pair.name, pair.devices.size());
  Cluster ring;
  ring.name = fmt::format("{}~{}", pair.name, laps);
  const LinkEntry& there = pair.links.front();
  const LinkEntry back{there.backward_gbps, there.forward_gbps, there.shared_gbps, there.latency_us};
  for (size_t place = 0; place < to_size(2 * laps + 1); ++place) {
    const DeviceEntry& card = pair.devices[place % 2];
    ring.devices.push_back({default_device_name(card.device, place), card.device, card.host, card.name});
    if (place > 0) ring.links.push_back(place % 2 == 1 ? there : back);
  }
  text::Codec<Cluster>::check(ring, text::Path("cluster", ErrorCode::kUsage));
  return ring;
}

Cluster parse_cluster_shorthand(std::string_view shorthand) {
  if (const auto [cards, laps] = laps_of(shorthand); laps > 0) return folded(parse_cluster_shorthand(cards), laps);
  std::vector<Run> runs;
  int64_t total = 0;
  for (size_t begin = 0; begin <= shorthand.size();) {
    const size_t end = std::min(shorthand.find('+', begin), shorthand.size());
    runs.push_back(run_of(shorthand.substr(begin, end - begin), shorthand));
    total += runs.back().count;
    if (total > text::kMostDevices) fail(ErrorCode::kUsage, "cluster \"{}\": more than {} devices", shorthand, text::kMostDevices);
    begin = end + 1;
  }
  const Cluster cluster = cluster_of(runs, std::string(shorthand), {kDefaultLinkGbps, kDefaultLinkGbps, 0, kDefaultLatencyUs});
  text::Codec<Cluster>::check(cluster, text::Path("cluster", ErrorCode::kUsage));
  return cluster;
}

}  // namespace millrace
