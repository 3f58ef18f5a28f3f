#include "transport/nccl/line_module.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "core/base/companion_module.h"

namespace millrace {

namespace {

constexpr const char* kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";

LineSupport open_driver() {
  const CompanionModule module = load_companion("libmillrace_nccl.so", "build with the CUDA toolkit and NCCL 2.14 or newer",
                                                "the folders of NCCL's and CUDA's libraries");
  if (!module.reason.empty()) return {nullptr, module.reason};
  auto* const open = module.function<LineDriver*()>("millrace_nccl_driver");
  if (open == nullptr) return {nullptr, fmt::format("{} is of another version; install it anew", module.path)};
  return {std::shared_ptr<LineDriver>(open()), ""};
}

}  // namespace

LineSupport line_support() {
  if (const char* connections = std::getenv(kConnections); connections != nullptr && std::string_view(connections) == "1")
    return {nullptr, fmt::format("{}=1 makes messages wait for calculations; take it out of the environment", kConnections)};
  static const LineSupport opened = open_driver();
  return opened;
}

void prepare_for_lines() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv(kConnections, "32", 0);
}

}  // namespace millrace
