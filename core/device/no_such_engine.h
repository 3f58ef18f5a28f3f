// The amount of a demand that no device has: how a cost model says that no engine does what is asked.
//
//   if (demand.amounts[0] >= kNoSuchEngine) ...      // model.refusal(node) may say why
//
// It adds up over any number of shards.
#pragma once

namespace millrace {

inline constexpr double kNoSuchEngine = 1e30;

}  // namespace millrace
