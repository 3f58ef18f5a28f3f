// Opens NCCL: finds the module that drives it (transport/nccl/module) and loads it when it is first asked for, so that nothing here needs
// NCCL or CUDA to start.
//
//   prepare_for_lines();                                  // before anything asks CUDA for anything
//   const LineSupport lines = line_support();
//   if (lines.driver == nullptr) log::info("no NCCL: {}", lines.reason);
//
// The module is libmillrace_nccl.so (core/base/companion_module.h says where). Thread safe; the driver is for one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "transport/nccl/line_driver.h"

namespace millrace {

struct LineSupport {
  std::shared_ptr<LineDriver> driver;
  std::string reason;  // why there is none
};

// Never fails: whatever is wrong is the reason.
LineSupport line_support();

// Sets what CUDA reads when it starts, where nobody has set it: all kernels are loaded at once, for loading one later would wait for
// messages under way, and perhaps for ever; and queues enough that no two share one.
void prepare_for_lines();

}  // namespace millrace
