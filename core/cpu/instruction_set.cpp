#include "core/cpu/instruction_set.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace millrace::cpu {

namespace {

InstructionSet best_for_loops() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  if (__builtin_cpu_supports("x86-64-v4") != 0) return InstructionSet::kAvx512;
  if (__builtin_cpu_supports("x86-64-v3") != 0) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kSse41;
}

// Linux keeps the state of tiles only for processes that ask for it.
bool ask_for_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

InstructionSet instruction_set() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41: return InstructionSet::kSse41;
    case dnnl::cpu_isa::avx: return InstructionSet::kAvx;
    case dnnl::cpu_isa::avx2:
    case dnnl::cpu_isa::avx2_vnni: return InstructionSet::kAvx2;
    default: return InstructionSet::kAvx512;
  }
}

bool has_bf16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

bool has_tiles() {
  static const bool has = dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx && ask_for_tiles();
  return has;
}

const char* name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kSse41: return "sse41";
    case InstructionSet::kAvx: return "avx";
    case InstructionSet::kAvx2: return "avx2";
    case InstructionSet::kAvx512: break;
  }
  return "avx512_core";
}

InstructionSet loop_instruction_set() {
  static const InstructionSet set = std::min(instruction_set(), best_for_loops());
  return set;
}

}  // namespace millrace::cpu
