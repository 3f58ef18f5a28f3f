#include "fpga/common/rtl/rtl_modules.h"

#include <algorithm>

namespace millrace {

std::vector<RtlModule> with_common_modules(const std::vector<RtlModule>& own) {
  std::vector<RtlModule> all = own;
  all.insert(all.end(), common_rtl_modules().begin(), common_rtl_modules().end());
  std::ranges::sort(all, {}, &RtlModule::file);
  return all;
}

}  // namespace millrace
