// Which vector instructions the CPU engine uses, in oneDNN's kernels and in our own loops alike: the best that the processor has, or less
// where the environment says so. ONEDNN_MAX_CPU_ISA=AVX2 makes every machine one without AVX-512; oneDNN's documentation lists the other
// values. It is read once, before the first kernel. Internal to core/cpu.
//
//   const bool wide = instruction_set() == InstructionSet::kAvx512;
#pragma once

namespace millrace::cpu {

enum class InstructionSet { kSse41, kAvx, kAvx2, kAvx512 };

// What oneDNN may use, extensions that fp32 ignores left out.
InstructionSet instruction_set();
// "avx512_core", "avx2", "avx" or "sse41", as kernel tables and fingerprints have it.
const char* name_of(InstructionSet set);

// Whether products of bf16 are among them: with AVX-512 BF16 or more.
bool has_bf16();
// Whether products in tiles of bf16 (AMX) are, too, and the system lets this process use them. Asks it once.
bool has_tiles();

// What our own loops use of it: kAvx512, kAvx2 or, for anything older, kSse41. Below instruction_set() only on a processor that lacks
// part of what compilers take a generation to have.
InstructionSet loop_instruction_set();

}  // namespace millrace::cpu
