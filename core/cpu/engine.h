// What all kernels of one CPU device share: threads, the instruction set, the table of choices, and scratch memory.
// Internal to core/cpu.
//
//   auto engine = std::make_shared<Engine>(threads, KernelTable::shipped());
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/cpu/kernel_table.h"
#include "core/cpu/memory.h"
#include "core/device/device.h"

namespace millrace::cpu {

struct Engine {
  Engine(int threads, KernelTable table, bool halves = false);

  int threads;
  KernelTable table;
  std::string isa;        // instruction_set() by its name
  int64_t vector_length;  // floats: the size of a block of channels
  bool halves;            // products round their operands to bf16 and add in fp32, where a kernel for it is there
  Arena arena;
};

// A device over a table that is given instead of loaded.
std::unique_ptr<Device> make_device(int threads, KernelTable table);
std::unique_ptr<Device> make_device(std::shared_ptr<Engine> engine);

}  // namespace millrace::cpu
