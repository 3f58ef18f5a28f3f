#include "deploy/session/ring_links.h"

#include <fmt/format.h>

#include <vector>

#include "core/base/error.h"
#include "deploy/session/word_meaning.h"
#include "gpu/device/gpu_module.h"
#include "transport/nccl/line_module.h"

namespace millrace {

LinkUse link_use_from(const std::string& word) {
  return meaning_of<LinkUse>("--links", word, {{"auto", LinkUse::kAuto}, {"mpi", LinkUse::kMpi}, {"nccl", LinkUse::kNccl}});
}

void refuse_idle_links(LinkUse use, int64_t ranks, bool shape_links) {
  if (use != LinkUse::kNccl) return;
  if (ranks == 1)
    fail(ErrorCode::kUsage, "--links nccl has no effect: one rank has no links to others; leave it out, or start more with mpirun");
  if (shape_links)
    fail(ErrorCode::kUsage, "--links nccl and --shape-links exclude each other: shaped messages go by way of host memory; choose one");
}

LinkSettings link_settings(LinkUse use, int64_t ranks, bool shape_links, const DeviceOptions& devices) {
  LinkSettings settings{.use = shape_links ? LinkUse::kMpi : use};
  if (settings.use == LinkUse::kMpi || ranks == 1 || devices.gpus == GpuUse::kOff) return settings;
  prepare_for_lines();
  if (count_gpus().count == 0) return settings;  // its devices are no GPUs, which is reason enough
  LineSupport lines = line_support();
  settings.driver = std::move(lines.driver);
  if (settings.driver == nullptr) settings.no_driver = fmt::format("has no NCCL ({})", lines.reason);
  return settings;
}

}  // namespace millrace
