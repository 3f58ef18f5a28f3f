// Files of FPGA designs, .xclbin: written for the emulation, and checked before a board is given one. Internal to fpga/xrt.
//
//   save(design, folder / "engine.xclbin");                         // atomically
//   const Xclbin found = load_xclbin("board.xclbin");               // kMalformed: what is wrong, and where in the file
//   const XclbinKernel& kernel = kernel_of(found, "millrace_conv_ce", "board.xclbin");
//
// The container is AMD's axlf ("xclbin2"): a header, section headers, sections. Written and read are MEM_TOPOLOGY, IP_LAYOUT,
// CONNECTIVITY and EMBEDDED_METADATA, which is XML; the sections of a board's bitstream are passed over. Needs no XRT.
// Every offset, count and name of a file is checked before it is used; a file that is read back gives what was written.
// The format's structures are those of xclbin.h of XRT 2.13 (AMD, Apache-2.0).
// Limits: 1 GiB a file; 64 memories, kernels and instances, 256 arguments each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::xrt {

enum class XclbinTarget : uint16_t { kBoard = 0, kHardwareEmulation = 4, kSoftwareEmulation = 5 };

struct XclbinMemory {
  std::string tag;  // "bank0", "HBM[3]": 15 characters at most
  uint64_t base = 0;
  uint64_t kilobytes = 0;
  bool operator==(const XclbinMemory&) const = default;
};

struct XclbinArgument {
  std::string name;
  uint32_t bytes = 4;
  uint64_t offset = 0;                 // of its register
  std::optional<int32_t> memory = {};  // pointers: which memory
  bool operator==(const XclbinArgument&) const = default;
};

struct XclbinInstance {
  std::string name;
  uint64_t base = 0;  // of its registers
  bool operator==(const XclbinInstance&) const = default;
};

struct XclbinKernel {
  std::string name;
  uint32_t map_bytes = 0x1000;
  std::vector<XclbinArgument> arguments = {};
  std::vector<XclbinInstance> instances = {};
  bool operator==(const XclbinKernel&) const = default;
};

struct Xclbin {
  std::string platform;  // "xilinx_u280_...": 63 characters at most
  XclbinTarget target = XclbinTarget::kSoftwareEmulation;
  std::vector<XclbinMemory> memories = {};
  std::vector<XclbinKernel> kernels = {};
  bool operator==(const Xclbin&) const = default;
};

std::vector<std::byte> bytes_of(const Xclbin& xclbin);
// `where` is named in errors.
Xclbin xclbin_from(std::span<const std::byte> bytes, std::string_view where);

void save(const Xclbin& xclbin, const std::filesystem::path& path);
Xclbin load_xclbin(const std::filesystem::path& path);

// Fails with kMismatch, naming those that are there.
const XclbinKernel& kernel_of(const Xclbin& xclbin, std::string_view name, std::string_view where);

}  // namespace millrace::xrt
