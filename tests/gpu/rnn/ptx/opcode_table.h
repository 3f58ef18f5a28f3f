// What plain opcodes do to registers, by their names without modes; comparisons and conversions have theirs in Instruction::mode.
//
//   const auto found = opcode_table().find("add.s32");
//
// For decode.cpp, which knows what an opcode's other words say.
#pragma once

#include <map>
#include <string>

#include "tests/gpu/rnn/ptx/module.h"

namespace millrace::rnn::ptx {

enum Comparison { kEqual, kUnequal, kLess, kLessEqual, kGreater, kGreaterEqual, kNumbers, kNan, kUnordered = 16 };
enum Rounding { kNone, kToNearest, kDown, kUp, kToZero, kSaturated = 16 };

using Run = void (*)(Word*, const Instruction&);
using OpcodeTable = std::map<std::string, Run>;
const OpcodeTable& opcode_table();

}  // namespace millrace::rnn::ptx
