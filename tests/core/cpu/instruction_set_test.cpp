#include "core/cpu/instruction_set.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/cpu/engine.h"
#include "core/cpu/kernel_table.h"

namespace millrace::cpu {

// Forced down for oneDNN, our own loops follow: what a machine without AVX-512 computes is computed here too.
TEST(InstructionSets, OurLoopsKeepTheLimitOfOneDnn) {
  EXPECT_LE(loop_instruction_set(), instruction_set());
  const char* const limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (limit == nullptr || std::string(limit) != "AVX2") GTEST_SKIP() << "runs with ONEDNN_MAX_CPU_ISA=AVX2, as cpu_on_avx2 does";
  EXPECT_LE(instruction_set(), InstructionSet::kAvx2);
  EXPECT_LE(loop_instruction_set(), InstructionSet::kAvx2);
  EXPECT_EQ(Engine(1, {}).vector_length, 8);
}

}  // namespace millrace::cpu
