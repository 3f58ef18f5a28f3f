// Where the fields of an xclbin lie, in bytes from the start of their structure. Internal to fpga/xrt/xclbin.
//
//   writer.at(kHeaderLength).number<uint64_t>(total);
//
// Constants alone; the names on the right are those of AMD's xclbin.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace::xrt {

inline constexpr std::string_view kMagic{"xclbin2\0", 8};
inline constexpr size_t kMostFileBytes = size_t{1} << 30;

// axlf
inline constexpr size_t kSignatureLength = 8;  // m_signature_length, -1: none
inline constexpr size_t kReserved = 12;        // reserved, 0xff
inline constexpr size_t kReservedBytes = 28;
inline constexpr size_t kUniqueId = 296;  // m_uniqueId
inline constexpr size_t kHeader = 304;    // m_header
// axlf_header, from the start of the file
inline constexpr size_t kHeaderLength = kHeader;             // m_length
inline constexpr size_t kHeaderVersionPatch = kHeader + 24;  // m_versionPatch
inline constexpr size_t kHeaderVersionMajor = kHeader + 26;  // m_versionMajor
inline constexpr size_t kHeaderVersionMinor = kHeader + 27;  // m_versionMinor
inline constexpr size_t kHeaderMode = kHeader + 28;          // m_mode
inline constexpr size_t kHeaderPlatform = kHeader + 48;      // m_platformVBNV
inline constexpr size_t kPlatformBytes = 64;
inline constexpr size_t kHeaderUuid = kHeader + 112;      // uuid
inline constexpr size_t kHeaderSections = kHeader + 144;  // m_numSections
inline constexpr size_t kSections = kHeader + 152;        // m_sections

// axlf_section_header
inline constexpr size_t kSectionHeaderBytes = 40;
inline constexpr size_t kSectionOffset = 24;  // m_sectionOffset
inline constexpr size_t kSectionSize = 32;    // m_sectionSize
inline constexpr uint32_t kMostSections = 256;

enum SectionKind : uint32_t {
  kEmbeddedMetadata = 2,
  kMemTopology = 6,
  kConnectivity = 7,
  kIpLayout = 8,
  kGroupTopology = 26,
  kGroupConnectivity = 27,
};

// mem_topology: m_count, then from 8 mem_data
inline constexpr size_t kEntries = 8;
inline constexpr size_t kMemoryBytes = 40;
inline constexpr size_t kMemoryUsed = 1;
inline constexpr size_t kMemorySize = 8;
inline constexpr size_t kMemoryBase = 16;
inline constexpr size_t kMemoryTag = 24;
inline constexpr size_t kMemoryTagBytes = 16;
inline constexpr uint8_t kMemoryDdr4 = 1;

// ip_layout: m_count, then from 8 ip_data
inline constexpr size_t kIpBytes = 80;
inline constexpr size_t kIpBase = 8;
inline constexpr size_t kIpName = 16;
inline constexpr size_t kIpNameBytes = 64;
inline constexpr uint32_t kIpKernel = 1;

// connectivity: m_count, then from 4 connection
inline constexpr size_t kConnections = 4;
inline constexpr size_t kConnectionBytes = 12;

inline constexpr size_t kMostEntries = 64;
inline constexpr size_t kMostArguments = 256;

}  // namespace millrace::xrt
