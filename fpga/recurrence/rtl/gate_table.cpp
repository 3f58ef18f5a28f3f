#include <fmt/format.h>

#include "fpga/recurrence/arithmetic/gate_function.h"
#include "fpga/recurrence/rtl/rtl_modules.h"

namespace millrace {

std::string gate_table_text() {
  std::string text;
  for (const uint16_t entry : sigmoid_table()) text += fmt::format("{:04x}\n", entry);
  return text;
}

}  // namespace millrace
