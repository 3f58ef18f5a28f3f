// The performance model's constants of NVIDIA's architectures, by compute capability, and where each is from.
//
//   const Gpu gpu = constants_of(90, 132);               // an H100 or H200
//   for (const Constant& one : constants_beside_titan_v(90)) print(one.name, one.value, name_of(one.basis), one.note);
//
// Titan V's are GRNN's; an architecture lists what it has otherwise. Until a GPU was timed all of that is projected: measured by others
// and quoted, derived from what is documented, or assumed. What `millrace-bench-rnn --calibrate` fits on a GPU it prints as rows for the
// table in architectures.cpp, where they take the place of those.
// Plain values on the standard library; pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gpu/rnn/performance_model.h"

namespace millrace::rnn {

enum class Basis { kQuoted, kDerived, kAssumed, kFitted };
std::string_view name_of(Basis basis);

struct Constant {
  double Gpu::*member;
  const char* name;
  double value;
  Basis basis;
  const char* note;
};

struct Architecture {
  int capability;  // 90: 9.0
  std::span<const Constant> constants;
};
std::span<const Architecture> architectures();

// Of the newest architecture in the table that is not newer; none of those before the first.
std::span<const Constant> constants_beside_titan_v(int capability);
Gpu constants_of(int capability, int multiprocessors);

// Rows for the table: what fit() brings.
std::string rows_of(const Gpu& fitted, const std::string& gpu);

}  // namespace millrace::rnn
