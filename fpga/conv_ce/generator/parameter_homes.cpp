#include "fpga/conv_ce/generator/parameter_homes.h"

#include <fmt/format.h>

namespace millrace {

ParameterHomes parameter_homes(const Plan& plan, int64_t device) {
  ParameterHomes homes;
  for (const ParameterHome& home : plan.homes) {
    if (home.home == home.user) continue;
    if (home.user == device) homes.stored_elsewhere += home.count;
    if (home.home == device) homes.stored_for_others += home.count;
  }
  return homes;
}

std::string text_of(const ParameterHomes& homes, int64_t device) {
  return fmt::format(
      "the plan balances parameters: {} elements of device {}'s layers are stored on others, and {} of others' on it; the generated "
      "hardware keeps all parameters of its own layers on the chip and none of others', and none travel along the ring, so its memory and "
      "traffic are not the plan's",
      homes.stored_elsewhere, device, homes.stored_for_others);
}

}  // namespace millrace
