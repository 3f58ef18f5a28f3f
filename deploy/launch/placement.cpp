#include "deploy/launch/placement.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {
namespace {

const Host* find_host(const std::vector<Host>& hosts, const std::string& name) {
  const auto found = std::ranges::find(hosts, name, &Host::name);
  return found == hosts.end() ? nullptr : &*found;
}

Cluster only(const Cluster& whole, const std::vector<size_t>& kept) {
  Cluster part;
  part.name = whole.name;
  for (size_t k = 0; k < kept.size(); ++k) {
    part.devices.push_back(whole.devices[kept[k]]);
    if (k == 0) continue;
    LinkEntry link = whole.links[kept[k - 1]];
    for (size_t l = kept[k - 1] + 1; l < kept[k]; ++l) {
      const LinkEntry& next = whole.links[l];
      link.forward_gbps = std::min(link.forward_gbps, next.forward_gbps);
      link.backward_gbps = std::min(link.backward_gbps, next.backward_gbps);
      if (next.shared_gbps > 0) link.shared_gbps = link.shared_gbps > 0 ? std::min(link.shared_gbps, next.shared_gbps) : next.shared_gbps;
      link.latency_us += next.latency_us;
    }
    part.links.push_back(link);
  }
  return part;
}

// So many ranks on hosts in proportion to their slots, in their order.
std::vector<Host> share_out(int64_t ranks, const std::vector<Host>& hosts) {
  std::vector<Host> shared = hosts;
  for (Host& host : shared) host.slots = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    size_t least = 0;
    for (size_t h = 1; h < hosts.size(); ++h)
      if (shared[h].slots * hosts[least].slots < shared[least].slots * hosts[h].slots) least = h;
    ++shared[least].slots;
  }
  std::erase_if(shared, [](const Host& host) { return host.slots == 0; });
  return shared;
}

// Fills the slots one host after the other.
std::vector<Host> fill_up(int64_t ranks, const std::vector<Host>& hosts) {
  std::vector<Host> filled;
  for (const Host& host : hosts) {
    const int64_t here = std::min(ranks, host.slots);
    if (here > 0) filled.push_back({host.name, here});
    ranks -= here;
  }
  if (ranks > 0 && !filled.empty()) filled.back().slots += ranks;
  return filled;
}

// Devices whose document says where they are: one rank each, beside each other.
RankPlacement place_as_documented(const PlacementWishes& wishes, const std::vector<Host>& present) {
  if (wishes.replicas > 1)
    fail(ErrorCode::kUsage, "--replicas {}: the cluster says on which host each device is, which stands for one ring; leave the hosts out",
         wishes.replicas);
  std::vector<size_t> kept;
  RankPlacement placement;
  for (size_t d = 0; d < wishes.whole.devices.size(); ++d) {
    const DeviceEntry& device = wishes.whole.devices[d];
    if (find_host(wishes.hosts, device.host) == nullptr)
      fail(ErrorCode::kUsage, "device \"{}\" of the cluster is on host \"{}\", which is not among the hosts; name it there", device.name,
           device.host);
    if (find_host(present, device.host) == nullptr) continue;
    kept.push_back(d);
    if (!placement.hosts.empty() && placement.hosts.back().name == device.host) {
      ++placement.hosts.back().slots;
      continue;
    }
    if (find_host(placement.hosts, device.host) != nullptr)
      fail(ErrorCode::kUsage, "the devices of host \"{}\" must follow one another in the cluster's ring", device.host);
    placement.hosts.push_back({device.host, 1});
  }
  placement.cluster = only(wishes.whole, kept);
  placement.ranks = static_cast<int64_t>(kept.size());
  if (wishes.ranks && *wishes.ranks != static_cast<int64_t>(wishes.whole.devices.size()))
    fail(ErrorCode::kUsage, "--ranks {}: the cluster says on which host each of its {} devices is, so each has a rank; leave it out",
         *wishes.ranks, wishes.whole.devices.size());
  return placement;
}

}  // namespace

RankPlacement place(const PlacementWishes& wishes, const std::vector<Host>& present) {
  const auto asked = static_cast<int64_t>(wishes.whole.devices.size());
  if (wishes.hosts.empty()) {
    const int64_t most = asked * wishes.replicas;
    const int64_t fit = std::max(wishes.replicas, wishes.cores / std::max<int64_t>(1, wishes.threads) / wishes.replicas * wishes.replicas);
    return {.cluster = wishes.whole, .ranks = wishes.ranks.value_or(std::min(most, fit))};
  }
  if (std::ranges::any_of(wishes.whole.devices, [](const DeviceEntry& device) { return !device.host.empty(); }))
    return place_as_documented(wishes, present);

  const int64_t devices = std::min(asked, slots_of(present) / wishes.replicas);
  // Those whose slots are there first, then the others in their order.
  std::vector<size_t> kept, without;
  size_t device = 0;
  for (const Host& host : wishes.hosts)
    for (int64_t slot = 0; slot < host.slots && device < to_size(asked); ++slot, ++device)
      (find_host(present, host.name) != nullptr ? kept : without).push_back(device);
  for (; device < to_size(asked); ++device) without.push_back(device);
  for (const size_t other : without)
    if (std::cmp_less(kept.size(), devices)) kept.push_back(other);
  kept.resize(to_size(std::min<int64_t>(devices, static_cast<int64_t>(kept.size()))));
  std::ranges::sort(kept);

  RankPlacement placement{.cluster = only(wishes.whole, kept)};
  if (kept.empty()) return placement;
  placement.ranks = std::min(wishes.ranks.value_or(devices * wishes.replicas), devices * wishes.replicas);
  placement.ranks = std::max(wishes.replicas, placement.ranks / wishes.replicas * wishes.replicas);
  placement.hosts = placement.ranks == devices * wishes.replicas ? fill_up(placement.ranks, present) : share_out(placement.ranks, present);
  return placement;
}

std::string shorthand_of(const Cluster& cluster) {
  std::string text;
  for (size_t begin = 0; begin < cluster.devices.size();) {
    size_t end = begin;
    while (end < cluster.devices.size() && cluster.devices[end].device == cluster.devices[begin].device) ++end;
    text += fmt::format("{}{}x{}", text.empty() ? "" : "+", cluster.devices[begin].device, end - begin);
    begin = end;
  }
  return text;
}

int64_t usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  std::set<std::string> cores;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::string siblings;
    if (!std::getline(file, siblings)) siblings = fmt::format("cpu {}", cpu);
    cores.insert(siblings);
  }
  return std::max<int64_t>(1, static_cast<int64_t>(cores.size()));
}

}  // namespace millrace
