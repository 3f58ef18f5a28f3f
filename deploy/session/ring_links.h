// The links of a training's ring on this machine: --links, and what `doctor` says of them.
//
//   DeviceLinks links(link_settings(link_use_from(flags.links), device_options));
//   Transport transport(links.over(make_ring_wire(session.world())), settings);
//
// Fails with kUsage, naming the flag.
#pragma once

#include <string>

#include "deploy/devices/device_registry.h"
#include "transport/nccl/device_links.h"

namespace millrace {

LinkUse link_use_from(const std::string& word);  // auto, mpi, nccl
// Fails where a wish has no effect: links between ranks alone have a choice, and shaped ones take host memory.
void refuse_idle_links(LinkUse use, int64_t ranks, bool shape_links);
// Loads NCCL where this machine may use it.
LinkSettings link_settings(LinkUse use, int64_t ranks, bool shape_links, const DeviceOptions& devices);

}  // namespace millrace
