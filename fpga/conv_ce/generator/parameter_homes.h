// What a plan that balances parameters asks of a device, and what its generated hardware does instead.
//
//   if (const ParameterHomes homes = parameter_homes(plan, 3); homes.any()) log::warning("{}", text_of(homes, 3));
//
// A plan may store a slice of a layer's parameters on another device than the one that computes with it; the trainer and the simulator
// send it along the ring for every pass. Generated hardware does not: each device keeps all parameters of its own layers on its chip, and
// none of another's, so neither its memory nor the traffic of parameters is what such a plan says.
#pragma once

#include <cstdint>
#include <string>

#include "core/documents/plan.h"

namespace millrace {

// In elements.
struct ParameterHomes {
  int64_t stored_elsewhere = 0;   // of the device's own layers, by the plan
  int64_t stored_for_others = 0;  // of other devices' layers

  bool any() const { return stored_elsewhere > 0 || stored_for_others > 0; }
};
ParameterHomes parameter_homes(const Plan& plan, int64_t device);

// One sentence for warnings and for the README.
std::string text_of(const ParameterHomes& homes, int64_t device);

}  // namespace millrace
