// The fields of the cluster document: ClusterText is what people write, with its short forms; expand() and compact()
// lead to the plain Cluster and back. See fields.h; internal to core/documents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/documents/cluster.h"
#include "core/documents/fields.h"

namespace millrace::text {

// A place in the ring may leave its name open.
struct DeviceText {
  std::optional<std::string> name;
  std::string device;
  std::string host;
  std::string seat;
};

struct DeviceRun {
  int64_t count = 1;
  std::string device;
  std::string host;
};

struct LinkText {
  std::optional<int64_t> at;
  std::optional<double> forward_gbps;
  std::optional<double> backward_gbps;
  std::optional<double> shared_gbps;
  std::optional<double> latency_us;
  bool operator==(const LinkText&) const = default;
};

struct ClusterText {
  std::string name;
  std::vector<DeviceText> devices;
  std::vector<DeviceRun> repeat;
  LinkText default_link;
  std::vector<LinkText> links;
};

// Fails when the short forms contradict each other.
Cluster expand(const ClusterText& written, const Path& where);
ClusterText compact(const Cluster& cluster);

// One bit per second to a petabit; microseconds up to a quarter of an hour.
inline constexpr Reals kBandwidth{1e-9, 1e6};
inline constexpr Reals kSharedBandwidth{0, 1e6};
inline constexpr Reals kLatency{0, 1e9};

template <>
struct Fields<DeviceText> {
  static void visit(auto& v) {
    v.field("name", &DeviceText::name, Presence::kDefaulted, Words::kName);
    v.field("device", &DeviceText::device, Presence::kRequired, Words::kName);
    v.field("host", &DeviceText::host, Presence::kDefaulted, Words::kFree);
    v.field("seat", &DeviceText::seat, Presence::kDefaulted, Words::kFree);
  }
};

template <>
struct Fields<DeviceRun> {
  static void visit(auto& v) {
    constexpr Integers kDevices{1, kMostDevices};
    v.field("count", &DeviceRun::count, Presence::kDefaulted, kDevices);
    v.field("device", &DeviceRun::device, Presence::kRequired, Words::kName);
    v.field("host", &DeviceRun::host, Presence::kDefaulted, Words::kFree);
  }
};

template <>
struct Fields<LinkText> {
  static void visit(auto& v) {
    v.field("at", &LinkText::at, Presence::kDefaulted, kDevice);
    v.pair("gbps", "forward_gbps", "backward_gbps", &LinkText::forward_gbps, &LinkText::backward_gbps, Presence::kDefaulted, kBandwidth);
    v.field("shared_gbps", &LinkText::shared_gbps, Presence::kDefaulted, kSharedBandwidth);
    v.field("latency_us", &LinkText::latency_us, Presence::kDefaulted, kLatency);
  }
};

template <>
struct Fields<ClusterText> {
  static void visit(auto& v) {
    v.field("name", &ClusterText::name, Presence::kDefaulted, Words::kFree);
    v.list("devices", &ClusterText::devices);
    v.list("repeat", &ClusterText::repeat);
    v.field("default_link", &ClusterText::default_link, Presence::kDefaulted);
    v.list("links", &ClusterText::links);
  }
};

// The plain structs are only checked, never read or written as they are.
template <>
struct Fields<DeviceEntry> {
  static void visit(auto& v) {
    v.field("name", &DeviceEntry::name, Presence::kRequired, Words::kName);
    v.field("device", &DeviceEntry::device, Presence::kRequired, Words::kName);
    v.field("host", &DeviceEntry::host, Presence::kDefaulted, Words::kFree);
    v.field("seat", &DeviceEntry::seat, Presence::kDefaulted, Words::kFree);
  }
};

template <>
struct Fields<LinkEntry> {
  static void visit(auto& v) {
    v.field("forward_gbps", &LinkEntry::forward_gbps, Presence::kRequired, kBandwidth);
    v.field("backward_gbps", &LinkEntry::backward_gbps, Presence::kRequired, kBandwidth);
    v.field("shared_gbps", &LinkEntry::shared_gbps, Presence::kDefaulted, kSharedBandwidth);
    v.field("latency_us", &LinkEntry::latency_us, Presence::kDefaulted, kLatency);
  }
};

template <>
struct Fields<Cluster> {
  static void visit(auto& v) {
    v.field("name", &Cluster::name, Presence::kDefaulted, Words::kFree);
    v.list("devices", &Cluster::devices);
    v.list("links", &Cluster::links);
  }
  static void check(const Cluster& cluster, const Path& where);
};

template <>
struct Codec<Cluster> {
  static void read(const Message& message, Cluster& cluster, const Path& where);
  static void write(const Cluster& cluster, Message& message);
  static void check(const Cluster& cluster, const Path& where);
};

}  // namespace millrace::text
