#include "fpga/conv_ce/rtl/rtl_modules.h"

namespace millrace {

extern const std::vector<RtlModule>& conv_ce_rtl_modules();

const std::vector<RtlModule>& rtl_modules() {
  static const std::vector<RtlModule> modules = with_common_modules(conv_ce_rtl_modules());
  return modules;
}

}  // namespace millrace
