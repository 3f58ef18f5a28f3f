// Clusters in one word, for the command line: "vc709x15", "u280x8+h200x2", "cpu".
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
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

Cluster parse_cluster_shorthand(std::string_view shorthand) {
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
