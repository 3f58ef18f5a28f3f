#include <fmt/format.h>

#include <cstring>

#include "core/base/check.h"
#include "core/base/files.h"
#include "fpga/xrt/xclbin/xclbin_file.h"
#include "fpga/xrt/xclbin/xclbin_layout.h"

namespace millrace::xrt {

namespace {

class Block {
 public:
  explicit Block(size_t size) : bytes_(size) {}

  template <typename T>
  void number(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }
  void text(size_t at, size_t room, std::string_view text) {
    MILLRACE_CHECK(text.size() < room, "\"{}\" has more than {} characters", text, room - 1);
    std::memcpy(bytes_.data() + at, text.data(), text.size());
  }
  void fill(size_t at, size_t count, std::byte value) { std::memset(bytes_.data() + at, static_cast<int>(value), count); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> memory_topology(const Xclbin& xclbin) {
  Block block(kEntries + kMemoryBytes * xclbin.memories.size());
  block.number(0, static_cast<int32_t>(xclbin.memories.size()));
  for (size_t i = 0; i < xclbin.memories.size(); ++i) {
    const XclbinMemory& memory = xclbin.memories[i];
    const size_t at = kEntries + kMemoryBytes * i;
    block.number(at, kMemoryDdr4);
    block.number<uint8_t>(at + kMemoryUsed, 1);
    block.number(at + kMemorySize, memory.kilobytes);
    block.number(at + kMemoryBase, memory.base);
    block.text(at + kMemoryTag, kMemoryTagBytes, memory.tag);
  }
  return block.take();
}

// Instances in the order of the kernels that have them.
std::vector<std::byte> ip_layout(const Xclbin& xclbin) {
  size_t count = 0;
  for (const XclbinKernel& kernel : xclbin.kernels) count += kernel.instances.size();
  Block block(kEntries + kIpBytes * count);
  block.number(0, static_cast<int32_t>(count));
  size_t at = kEntries;
  for (const XclbinKernel& kernel : xclbin.kernels)
    for (const XclbinInstance& instance : kernel.instances) {
      block.number(at, kIpKernel);  // and AP_CTRL_HS, which is zero
      block.number(at + kIpBase, instance.base);
      block.text(at + kIpName, kIpNameBytes, fmt::format("{}:{}", kernel.name, instance.name));
      at += kIpBytes;
    }
  return block.take();
}

std::vector<std::byte> connectivity(const Xclbin& xclbin) {
  std::vector<std::array<int32_t, 3>> connections;  // argument, instance, memory
  int32_t instance = 0;
  for (const XclbinKernel& kernel : xclbin.kernels)
    for (size_t i = 0; i < kernel.instances.size(); ++i, ++instance)
      for (size_t argument = 0; argument < kernel.arguments.size(); ++argument)
        if (const auto memory = kernel.arguments[argument].memory)
          connections.push_back({static_cast<int32_t>(argument), instance, *memory});
  Block block(kConnections + kConnectionBytes * connections.size());
  block.number(0, static_cast<int32_t>(connections.size()));
  for (size_t i = 0; i < connections.size(); ++i)
    for (size_t word = 0; word < 3; ++word) block.number(kConnections + kConnectionBytes * i + 4 * word, connections[i][word]);
  return block.take();
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

std::string metadata(const Xclbin& xclbin) {
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  xml +=
      fmt::format("<project name=\"millrace\">\n <platform vendor=\"millrace\" boardid=\"{0}\" name=\"{0}\">\n", escaped(xclbin.platform));
  xml += "  <device name=\"fpga0\">\n   <core name=\"OCL_REGION_0\" type=\"clc_region\">\n";
  for (const XclbinKernel& kernel : xclbin.kernels) {
    // Without a type: with one, emulation takes the kernel for something else.
    xml += fmt::format("    <kernel name=\"{}\" language=\"ip\" hwControlProtocol=\"ap_ctrl_hs\">\n", escaped(kernel.name));
    xml +=
        "     <port name=\"M_AXI_GMEM\" mode=\"master\" range=\"0xFFFFFFFF\" dataWidth=\"512\" portType=\"addressable\" base=\"0x0\"/>\n";
    xml += fmt::format(
        "     <port name=\"S_AXI_CONTROL\" mode=\"slave\" range=\"{:#x}\" dataWidth=\"32\" portType=\"addressable\" base=\"0x0\"/>\n",
        kernel.map_bytes);
    for (size_t id = 0; id < kernel.arguments.size(); ++id) {
      const XclbinArgument& argument = kernel.arguments[id];
      const bool pointer = argument.memory.has_value();
      xml += fmt::format(
          "     <arg name=\"{}\" addressQualifier=\"{}\" id=\"{}\" port=\"{}\" size=\"{:#x}\" offset=\"{:#x}\" hostOffset=\"0x0\" "
          "hostSize=\"{:#x}\" type=\"{}\"/>\n",
          escaped(argument.name), pointer ? 1 : 0, id, pointer ? "M_AXI_GMEM" : "S_AXI_CONTROL", argument.bytes, argument.offset,
          argument.bytes, pointer ? "void*" : "uint");
    }
    for (const XclbinInstance& instance : kernel.instances)
      xml += fmt::format(
          "     <instance name=\"{}\">\n      <addrRemap base=\"{:#x}\" range=\"{:#x}\" port=\"S_AXI_CONTROL\"/>\n     </instance>\n",
          escaped(instance.name), instance.base, kernel.map_bytes);
    xml += "    </kernel>\n";
  }
  return xml + "   </core>\n  </device>\n </platform>\n</project>\n";
}

struct Section {
  uint32_t kind;
  std::string_view name;
  std::vector<std::byte> data;
};

size_t aligned(size_t size) { return (size + 7) / 8 * 8; }

}  // namespace

std::vector<std::byte> bytes_of(const Xclbin& xclbin) {
  const std::string xml = metadata(xclbin);
  const auto* text = reinterpret_cast<const std::byte*>(xml.data());
  Section sections[] = {
      {kMemTopology, "mem_topology", memory_topology(xclbin)},     {kIpLayout, "ip_layout", ip_layout(xclbin)},
      {kConnectivity, "connectivity", connectivity(xclbin)},       {kGroupTopology, "group_topology", memory_topology(xclbin)},
      {kGroupConnectivity, "group_connect", connectivity(xclbin)}, {kEmbeddedMetadata, "embedded_meta", {text, text + xml.size()}},
  };
  size_t size = aligned(kSections + kSectionHeaderBytes * std::size(sections));
  const size_t first = size;
  for (const Section& section : sections) size += aligned(section.data.size());
  Block block(size);
  block.text(0, kMagic.size() + 1, kMagic);
  block.number<int32_t>(kSignatureLength, -1);
  block.fill(kReserved, kReservedBytes, std::byte{0xff});
  block.number<uint64_t>(kHeaderLength, size);
  block.number<uint8_t>(kHeaderVersionMajor, 2);
  block.number<uint8_t>(kHeaderVersionMinor, 13);
  block.number(kHeaderMode, static_cast<uint16_t>(xclbin.target));
  block.text(kHeaderPlatform, kPlatformBytes, xclbin.platform);
  block.number(kHeaderSections, static_cast<uint32_t>(std::size(sections)));
  std::string contents;
  size_t at = first;
  for (size_t i = 0; i < std::size(sections); ++i) {
    const Section& section = sections[i];
    const size_t header = kSections + kSectionHeaderBytes * i;
    block.number(header, section.kind);
    block.text(header + 4, 16, section.name);
    block.number<uint64_t>(header + kSectionOffset, at);
    block.number<uint64_t>(header + kSectionSize, section.data.size());
    contents.append(reinterpret_cast<const char*>(section.data.data()), section.data.size());
    for (size_t j = 0; j < section.data.size(); ++j) block.number(at + j, section.data[j]);
    at += aligned(section.data.size());
  }
  // XRT takes designs of one uuid for the same: it comes from the contents.
  const std::string digest = digest_of(contents);
  for (size_t i = 0; i < 16; ++i) block.number(kHeaderUuid + i, static_cast<uint8_t>(std::stoul(digest.substr(2 * i, 2), nullptr, 16)));
  block.number(kUniqueId, std::stoull(digest.substr(0, 16), nullptr, 16));
  return block.take();
}

void save(const Xclbin& xclbin, const std::filesystem::path& path) { write_atomically(path, bytes_of(xclbin)); }

}  // namespace millrace::xrt
