// NCCL and CUDA behind lines: what libmillrace_nccl.so is made of. It links nothing of ours and is found by line_module.h.
//
//   extern "C" millrace::LineDriver* millrace_nccl_driver();      // the caller's; works without a GPU until something is asked of one
#pragma once

#include "transport/nccl/line_driver.h"

extern "C" millrace::LineDriver* millrace_nccl_driver();
