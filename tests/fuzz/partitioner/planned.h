// What must hold for every profile that a parser accepts: it follows its own rules, is written so that it comes back, and can
// be planned with finite numbers. Only millrace::Error may leave a parser; whatever else does is a finding.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/base/error.h"
#include "partitioner/profile/linearise.h"
#include "partitioner/profile/stage_partition.h"

namespace millrace::fuzz {

inline void check_plan(const Profile& profile, const StageTask& task) {
  const StagePartition plan = partition_stages(profile, task);
  MILLRACE_CHECK(plan.feasible != !plan.reason.text.empty(), "feasible: {}, reason: \"{}\"", plan.feasible, plan.reason.text);
  MILLRACE_CHECK(std::isfinite(plan.max_stage_seconds) && std::isfinite(plan.reason.missing), "{} s, {} missing", plan.max_stage_seconds,
                 plan.reason.missing);
  size_t nodes = 0;
  for (const Stage& stage : plan.stages) nodes += stage.nodes.size();
  MILLRACE_CHECK(!plan.feasible || nodes == profile.nodes.size(), "{} nodes in stages of {}", nodes, profile.nodes.size());
}

inline int try_profile(std::string_view text, Profile (*parse)(std::string_view text, std::string_view origin)) {
  Profile profile;
  try {
    profile = parse(text, "fuzz");
  } catch (const Error& error) {
    MILLRACE_CHECK(error.code() == ErrorCode::kMalformed, "a text cannot be {}: {}", name_of(error.code()), error.what());
    return 0;
  }
  validate(profile);
  const Profile chain = linearised(profile);
  // A name of a graph may hold a comma, which ends a field in the other format.
  bool comma = false;
  for (const ProfileNode& node : chain.nodes) comma = comma || node.name.find(',') != std::string::npos;
  // Sums over a cut may be more than one value may be.
  bool large = false;
  for (const ProfileNode& node : chain.nodes) large = large || node.out_bytes > kMostNodeBytes;
  if (!comma && !large) {
    const std::string written = csv_of(chain);
    const Profile again = parse_profile_csv(written, "written");
    MILLRACE_CHECK(csv_of(again) == written, "{}", written);
    MILLRACE_CHECK(again.size() == chain.size(), "{} nodes of {}", again.size(), chain.size());
  }
  if (profile.size() > 40) return 0;
  check_plan(profile, {.devices = 1, .memory_bytes = 1e6});
  check_plan(profile, {.devices = 3, .objective = StageObjective::kSum, .link_gbps = {kLeastLinkGbps}, .most_cuts = 200});
  check_plan(profile,
             {.devices = 4, .exactly = false, .objective = StageObjective::kMax, .memory_bytes = 1e9, .replicate = true, .most_cuts = 200});
  return 0;
}

}  // namespace millrace::fuzz
