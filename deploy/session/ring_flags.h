// Flags that say how a ring computes and how fast its links are, the same for `plan`, `study` and `train`.
//
//   set_link_gbps(cluster, flags.link_gbps, flags.link_gbps_both);
//   const Arithmetic arithmetic = arithmetic_for(cluster, catalogue, flags.bits);
//
// All fail with kUsage naming the flag.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/documents/catalogue.h"
#include "core/documents/cluster.h"
#include "core/documents/plan.h"

namespace millrace {

inline constexpr const char* kRecomputeHelp =
    "what recurrent layers keep is made again before errors come back: less memory, the same weights, more time";

// A link's bandwidth as given with `flag`, if links have such.
double checked_gbps(std::string_view flag, double gbps);

// --link-gbps, per direction, or --link-gbps-both, one budget for both directions; not both flags.
void set_link_gbps(Cluster& cluster, std::optional<double> each, std::optional<double> both);

// --bits: 16-bit fixed point where there are FPGAs and nobody asks for 32; CPUs and GPUs compute and send fp32 unless asked.
Arithmetic arithmetic_for(const Cluster& cluster, const Catalogue& catalogue, std::optional<int64_t> bits);

}  // namespace millrace
