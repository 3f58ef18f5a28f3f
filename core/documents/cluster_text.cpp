// Between what people write about a cluster and the plain Cluster.
#include <algorithm>

#include "core/base/index.h"
#include "core/documents/cluster_fields.h"
#include "core/documents/cluster_names.h"

namespace millrace::text {
namespace {

std::vector<DeviceEntry> devices_of(const ClusterText& written, const Path& where) {
  if (!written.devices.empty() && !written.repeat.empty())
    Path(where, "repeat")
        .fail("{} runs beside {} devices; write all devices one by one, or all as runs, so that their order is clear",
              written.repeat.size(), written.devices.size());
  std::vector<DeviceEntry> devices;
  for (const DeviceText& device : written.devices)
    devices.push_back({device.name.value_or(default_device_name(device.device, devices.size())), device.device, device.host, device.seat});
  for (size_t r = 0; r < written.repeat.size(); ++r) {
    const DeviceRun& run = written.repeat[r];
    const auto total = static_cast<int64_t>(devices.size()) + run.count;
    if (total > kMostDevices)
      Path(Path(where, "repeat", r), "count").fail("{} makes {} devices; at most {} are allowed", run.count, total, kMostDevices);
    for (int64_t i = 0; i < run.count; ++i) devices.push_back({default_device_name(run.device, devices.size()), run.device, run.host});
  }
  return devices;
}

LinkEntry link_of(const LinkText& written, const LinkEntry& otherwise) {
  return {written.forward_gbps.value_or(otherwise.forward_gbps), written.backward_gbps.value_or(otherwise.backward_gbps),
          written.shared_gbps.value_or(otherwise.shared_gbps), written.latency_us.value_or(otherwise.latency_us)};
}

std::vector<LinkEntry> links_of(const ClusterText& written, size_t count, const Path& where) {
  if (written.default_link.at)
    Path(Path(where, "default_link"), "at").fail("{} makes no sense here; the default is for all links", *written.default_link.at);
  const LinkEntry otherwise = link_of(written.default_link, {kDefaultLinkGbps, kDefaultLinkGbps, 0, kDefaultLatencyUs});
  std::vector<LinkEntry> links(count, otherwise);
  if (written.links.empty()) return links;
  const bool placed = written.links[0].at.has_value();
  if (!placed && written.links.size() != count)
    Path(where, "links")
        .fail("{} given; {} devices have {}. Write all of them, or say `at` which device each starts", written.links.size(), count + 1,
              count);
  std::vector<bool> seen(count, false);
  for (size_t i = 0; i < written.links.size(); ++i) {
    const LinkText& link = written.links[i];
    const Path here(where, "links", i);
    if (link.at.has_value() != placed) here.fail("`at` must be given in all links or in none");
    const size_t place = placed ? to_size(*link.at) : i;
    if (place >= count)
      Path(here, "at")
          .fail("{} is not where a link starts; {} devices have links 0 to {}", place, count + 1, static_cast<int64_t>(count) - 1);
    if (seen[place]) Path(here, "at").fail("{} is given twice", place);
    seen[place] = true;
    links[place] = link_of(link, otherwise);
  }
  return links;
}

LinkText text_of_link(const LinkEntry& link) {
  return {.at = {},
          .forward_gbps = link.forward_gbps,
          .backward_gbps = link.backward_gbps,
          .shared_gbps = link.shared_gbps == 0 ? std::optional<double>() : link.shared_gbps,
          .latency_us = link.latency_us};
}

}  // namespace

Cluster expand(const ClusterText& written, const Path& where) {
  Cluster cluster;
  cluster.name = written.name;
  cluster.devices = devices_of(written, where);
  if (cluster.devices.empty()) Path(where, "devices").fail("none given; a cluster needs at least one");
  cluster.links = links_of(written, cluster.devices.size() - 1, where);
  return cluster;
}

ClusterText compact(const Cluster& cluster) {
  ClusterText written;
  written.name = cluster.name;
  bool named_by_place = true;
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    const DeviceEntry& device = cluster.devices[i];
    written.devices.push_back({device.name, device.device, device.host, device.seat});
    named_by_place = named_by_place && device.seat.empty() && device.name == default_device_name(device.device, i);
    if (!written.repeat.empty() && written.repeat.back().device == device.device && written.repeat.back().host == device.host) {
      ++written.repeat.back().count;
    } else {
      written.repeat.push_back({1, device.device, device.host});
    }
  }
  const bool runs_are_shorter = named_by_place && written.repeat.size() < written.devices.size();
  if (runs_are_shorter) {
    written.devices.clear();
  } else {
    written.repeat.clear();
  }
  const bool links_alike =
      std::all_of(cluster.links.begin(), cluster.links.end(), [&](const LinkEntry& link) { return link == cluster.links.front(); });
  if (!cluster.links.empty() && links_alike) {
    written.default_link = text_of_link(cluster.links.front());
  } else {
    for (const LinkEntry& link : cluster.links) written.links.push_back(text_of_link(link));
  }
  return written;
}

void Codec<Cluster>::read(const Message& message, Cluster& cluster, const Path& where) {
  ClusterText written;
  Codec<ClusterText>::read(message, written, where);
  Codec<ClusterText>::check(written, where);  // before anything is expanded: counts may be absurd
  cluster = expand(written, where);
}

void Codec<Cluster>::write(const Cluster& cluster, Message& message) { Codec<ClusterText>::write(compact(cluster), message); }

void Codec<Cluster>::check(const Cluster& cluster, const Path& where) {
  FieldChecker<Cluster> checker(cluster, where);
  Fields<Cluster>::visit(checker);
  Fields<Cluster>::check(cluster, where);
}

}  // namespace millrace::text
