// The half of a register map that every engine's kernel has: control, identity, the window into memories, and what a device says
// about a run. Scalars and pointers are the engine's own (fpga/conv_ce/registers/register_map.h).
//
//   constexpr uint32_t at = pointer_offset(/*scalars=*/18, /*index=*/2);
//   if (header.mark != identity_of(kMapVersion)) ...
//
// AXI4-Lite control as high-level synthesis lays it out:
//   0x000          control     ap_ctrl_hs: bit 0 start, 1 done, 2 idle, 3 ready
//   0x010 + 8 i    scalar i    32 bits
//   from there     pointer i   64 bits, 12 bytes apart
//   0x0f8          identity    read only: mark and version of the map that the device implements
//   0x100 + 8 i    window i    generated hardware alone: kWindow names them in order; no arguments of the kernel
// Pointers are multiples of kPageBytes where hardware is generated. Constants alone.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "fpga/common/arithmetic/arithmetic_counters.h"

namespace millrace::xrt {

inline constexpr uint32_t kIdentityMark = 0x4d52'0000;  // "MR"
constexpr uint32_t identity_of(uint32_t map_version) { return kIdentityMark | map_version; }

inline constexpr uint32_t kControl = 0x00;
inline constexpr uint32_t kFirstArgument = 0x10;
inline constexpr uint32_t kIdentityRegister = 0xf8;
inline constexpr uint32_t kFirstWindow = 0x100;
inline constexpr uint32_t kMapBytes = 0x1000;
inline constexpr int kMapAddressBits = 12;  // that tell kMapBytes apart
inline constexpr uint32_t kPageBytes = 4096;

inline constexpr uint32_t kStartBit = 1, kDoneBit = 2, kIdleBit = 4, kReadyBit = 8;  // of control

// Into the memories of generated hardware, element by element, and what the memory outside answered.
enum Window : size_t { kWindowMemory, kWindowWord, kWindowElement, kWindowData, kWindowFaults, kWindowCount };
inline constexpr std::array<std::string_view, kWindowCount> kWindow = {"memory", "word", "element", "data", "faults"};

constexpr uint32_t scalar_offset(size_t index) { return kFirstArgument + 8 * static_cast<uint32_t>(index); }
constexpr uint32_t pointer_offset(size_t scalars, size_t index) { return scalar_offset(scalars) + 12 * static_cast<uint32_t>(index); }
constexpr uint32_t window_offset(size_t index) { return kFirstWindow + 8 * static_cast<uint32_t>(index); }
static_assert(window_offset(kWindowCount) <= kMapBytes && kMapBytes == 1U << kMapAddressBits);

// A kernel's argument, as metadata names it.
struct KernelArgument {
  std::string_view name;
  uint32_t bytes = 4;
  uint32_t offset = 0;
  bool pointer = false;  // to the memory outside
};

// What a host writes to start a run: every argument, a pointer as its two halves, and at last control.
struct RegisterWrite {
  uint32_t offset = 0;
  uint32_t value = 0;
};

// What the device says about a run, in front of the result.
struct ResultHeader {
  uint32_t mark = 0;    // the map's identity
  uint32_t run = 0;     // the register of that name: a result of another run is noticed
  uint32_t status = 0;  // RunStatus
  uint32_t padding = 0;
  PhaseCounters counters = {};  // ArithmeticCounters twice: 3 x 64 bits, then 2 doubles
  uint64_t gradient_run = 0;    // WU: the run that the gradient's header names
  std::array<uint64_t, 3> reserved = {};
};
static_assert(sizeof(ResultHeader) == 128);

enum RunStatus : uint32_t { kDone = 1, kBadPhase = 2, kBadShape = 3, kBadAddress = 4, kBadGradient = 5 };

}  // namespace millrace::xrt
