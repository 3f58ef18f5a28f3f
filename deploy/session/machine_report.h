// What the machine at hand has for Millrace: found by asking it, now, not by what the build saw (build_info.h).
//
//   const MachineReport machine = inspect_machine();
//   for (const Finding& finding : machine.findings)
//     if (!finding.present) fmt::print("{} is missing: {}\n", finding.name, finding.enables);
//
// Nothing here needs what it looks for: drivers are loaded by name and may be absent, tools are found on PATH and asked
// for their version (each program once, its output discarded but for a line). Takes a fraction of a second.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct Finding {
  std::string name;
  bool present = false;
  std::string detail;   // version, devices, or why it does not count
  std::string enables;  // what Millrace does with it
  std::string package;  // the Debian package that brings it; empty when none does
};

struct MachineReport {
  std::string system;     // kernel and its version
  std::string processor;  // as the kernel names it
  int cores = 0;          // that this process may use
  int64_t memory_bytes = 0;
  int64_t memory_available_bytes = 0;
  std::string isa;     // the widest instruction set that oneDNN uses here
  bool bf16 = false;   // whether the CPU engine multiplies in bf16 here, for train --cpu-precision
  std::string onednn;  // version of the library that is loaded
  std::vector<Finding> findings;

  // Packages of what is missing, in order, each once.
  std::vector<std::string> packages_to_install() const;
};

MachineReport inspect_machine();

// The full path of a program on PATH, or "".
std::string program_on_path(std::string_view name);

}  // namespace millrace
