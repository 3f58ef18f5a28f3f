// Rules between the fields of a cluster.
#include <unordered_map>

#include "core/documents/cluster_fields.h"

namespace millrace::text {

void Fields<Cluster>::check(const Cluster& cluster, const Path& where) {
  if (cluster.devices.empty()) Path(where, "devices").fail("none given; a cluster needs at least one");
  if (cluster.devices.size() > static_cast<size_t>(kMostDevices))
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
}

}  // namespace millrace::text
