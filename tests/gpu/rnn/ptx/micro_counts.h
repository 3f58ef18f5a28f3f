// What the micro-benchmarks' PTX does, counted: the performance model's constants are times divided by these counts.
//
//   check_micro_benchmarks(modules);              // expect() says what is otherwise
#pragma once

#include <vector>

#include "tests/gpu/rnn/ptx/module.h"

namespace millrace::rnn::ptx {

// All modules of one architecture.
void check_micro_benchmarks(const std::vector<const Module*>& modules);

}  // namespace millrace::rnn::ptx
