#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "fpga/xrt/xclbin/xclbin_file.h"
#include "fpga/xrt/xclbin/xclbin_layout.h"
#include "fpga/xrt/xclbin/xml_tags.h"

namespace millrace::xrt {

namespace {

// Bytes of a file or a section, read with every bound checked.
class View {
 public:
  View(std::span<const std::byte> bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}

  size_t size() const { return bytes_.size(); }
  const std::string& what() const { return what_; }

  template <typename T>
  T number(size_t at) const {
    T value;
    std::memcpy(&value, part(at, sizeof(value)).data(), sizeof(value));
    return value;
  }
  // Up to the first null character, which must be there.
  std::string text(size_t at, size_t room) const {
    const auto bytes = part(at, room);
    const auto end = std::ranges::find(bytes, std::byte{0});
    if (end == bytes.end()) fail(ErrorCode::kMalformed, "{}: the name at byte {} does not end within {} characters", what_, at, room);
    return {reinterpret_cast<const char*>(bytes.data()), to_size(end - bytes.begin())};
  }
  std::span<const std::byte> part(uint64_t at, uint64_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at)
      fail(ErrorCode::kMalformed, "{}: {} bytes at byte {} are wanted, and there are {}; the file is damaged or cut short", what_, count,
           at, bytes_.size());
    return bytes_.subspan(at, count);
  }
  // A table's number of entries, which all lie within.
  size_t entries(size_t first, size_t entry, size_t most) const {
    const auto count = number<int32_t>(0);
    if (count < 0 || to_size(count) > most) fail(ErrorCode::kMalformed, "{}: {} entries; there are 0 to {}", what_, count, most);
    if (count > 0) part(first, entry * to_size(count));
    return to_size(count);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string what_;
};

// The one section of a kind; nothing where there is none.
std::optional<View> find_section(const View& file, uint32_t sections, uint32_t kind, std::string_view name) {
  std::optional<View> found;
  for (uint32_t i = 0; i < sections; ++i) {
    const size_t header = kSections + kSectionHeaderBytes * i;
    if (file.number<uint32_t>(header) != kind) continue;
    if (found) fail(ErrorCode::kMalformed, "{}: two sections {}", file.what(), name);
    found.emplace(file.part(file.number<uint64_t>(header + kSectionOffset), file.number<uint64_t>(header + kSectionSize)),
                  fmt::format("{}: section {}", file.what(), name));
  }
  return found;
}
View section(const View& file, uint32_t sections, uint32_t kind, std::string_view name) {
  auto found = find_section(file, sections, kind, name);
  if (!found) fail(ErrorCode::kMalformed, "{}: no section {}; it is not a design with kernels", file.what(), name);
  return *found;
}

uint64_t number_of(const XmlTag& tag, std::string_view attribute, const std::string& what) {
  std::string_view text = tag.attribute(attribute, what);
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    fail(ErrorCode::kMalformed, "{}: <{} {}=\"{}\">: not a number", what, tag.name, attribute, tag.attribute(attribute, what));
  return value;
}

uint32_t small_number_of(const XmlTag& tag, std::string_view attribute, uint64_t most, const std::string& what) {
  const uint64_t value = number_of(tag, attribute, what);
  if (value > most) fail(ErrorCode::kMalformed, "{}: <{} {}=\"{}\">: more than {}", what, tag.name, attribute, value, most);
  return static_cast<uint32_t>(value);
}

// Kernels with their arguments; instances come from IP_LAYOUT, memories from CONNECTIVITY.
std::vector<XclbinKernel> kernels_of(std::string_view xml, const std::string& what) {
  std::vector<XclbinKernel> kernels;
  bool inside = false;
  for (const XmlTag& tag : xml_tags(xml, what)) {
    if (tag.name == "kernel") {
      inside = !tag.closes;
      if (tag.closes) continue;
      inside = !tag.empty;
      if (kernels.size() == kMostEntries) fail(ErrorCode::kMalformed, "{}: more than {} kernels", what, kMostEntries);
      kernels.push_back({.name = std::string(tag.attribute("name", what))});
      for (size_t i = 0; i + 1 < kernels.size(); ++i)
        if (kernels[i].name == kernels.back().name) fail(ErrorCode::kMalformed, "{}: two kernels named {}", what, kernels.back().name);
    } else if (inside && !tag.closes && tag.name == "port" && tag.has("mode") && tag.attribute("mode", what) == "slave") {
      kernels.back().map_bytes = small_number_of(tag, "range", UINT32_MAX, what);
    } else if (inside && !tag.closes && tag.name == "arg") {
      std::vector<XclbinArgument>& arguments = kernels.back().arguments;
      const uint32_t id = small_number_of(tag, "id", kMostArguments - 1, what);
      if (id != arguments.size())
        fail(ErrorCode::kMalformed, "{}: argument {} of kernel {} has the id {}", what, arguments.size(), kernels.back().name, id);
      arguments.push_back({.name = std::string(tag.attribute("name", what)),
                           .bytes = small_number_of(tag, "size", 4096, what),
                           .offset = number_of(tag, "offset", what)});
    }
  }
  return kernels;
}

}  // namespace

Xclbin xclbin_from(std::span<const std::byte> bytes, std::string_view where) {
  const View file(bytes, std::string(where));
  if (bytes.size() < kSections) fail(ErrorCode::kMalformed, "{}: {} bytes; an xclbin has a header of {}", where, bytes.size(), kSections);
  if (bytes.size() > kMostFileBytes) fail(ErrorCode::kMalformed, "{}: {} bytes; 1 GiB at most", where, bytes.size());
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    fail(ErrorCode::kMalformed, "{}: not an xclbin: it does not begin with xclbin2; build one with v++, or copy it again", where);
  if (const auto length = file.number<uint64_t>(kHeaderLength); length != bytes.size())
    fail(ErrorCode::kMalformed, "{}: {} bytes, and its header says {}; copy it again", where, bytes.size(), length);
  const auto sections = file.number<uint32_t>(kHeaderSections);
  if (sections > kMostSections) fail(ErrorCode::kMalformed, "{}: {} sections; {} at most", where, sections, kMostSections);
  file.part(kSections, kSectionHeaderBytes * sections);

  Xclbin xclbin;
  xclbin.platform = file.text(kHeaderPlatform, kPlatformBytes);
  const auto mode = file.number<uint16_t>(kHeaderMode);
  xclbin.target = mode == 5                ? XclbinTarget::kSoftwareEmulation
                  : mode == 4 || mode == 6 ? XclbinTarget::kHardwareEmulation
                                           : XclbinTarget::kBoard;

  const View memories = section(file, sections, kMemTopology, "MEM_TOPOLOGY");
  const size_t memory_count = memories.entries(kEntries, kMemoryBytes, kMostEntries);
  for (size_t i = 0; i < memory_count; ++i) {
    const size_t at = kEntries + kMemoryBytes * i;
    xclbin.memories.push_back({.tag = memories.text(at + kMemoryTag, kMemoryTagBytes),
                               .base = memories.number<uint64_t>(at + kMemoryBase),
                               .kilobytes = memories.number<uint64_t>(at + kMemorySize)});
  }

  const View metadata = section(file, sections, kEmbeddedMetadata, "EMBEDDED_METADATA");
  const auto text = metadata.part(0, metadata.size());
  xclbin.kernels = kernels_of({reinterpret_cast<const char*>(text.data()), text.size()}, metadata.what());

  const View layout = section(file, sections, kIpLayout, "IP_LAYOUT");
  std::vector<std::optional<size_t>> kernel_at;  // by entry of IP_LAYOUT; other blocks are no kernels
  const size_t layout_count = layout.entries(kEntries, kIpBytes, kMostEntries);
  for (size_t i = 0; i < layout_count; ++i) {
    const size_t at = kEntries + kIpBytes * i;
    kernel_at.emplace_back();
    if (layout.number<uint32_t>(at) != kIpKernel) continue;
    const std::string name = layout.text(at + kIpName, kIpNameBytes);
    const size_t colon = name.find(':');
    const auto kernel = std::ranges::find(xclbin.kernels, name.substr(0, colon), &XclbinKernel::name);
    if (colon == std::string::npos || kernel == xclbin.kernels.end())
      fail(ErrorCode::kMalformed, "{}: the instance \"{}\" belongs to no kernel of EMBEDDED_METADATA", layout.what(), name);
    kernel->instances.push_back({name.substr(colon + 1), layout.number<uint64_t>(at + kIpBase)});
    kernel_at.back() = to_size(kernel - xclbin.kernels.begin());
  }

  if (const auto connectivity = find_section(file, sections, kConnectivity, "CONNECTIVITY")) {
    const size_t count = connectivity->entries(kConnections, kConnectionBytes, kMostEntries * kMostArguments);
    for (size_t i = 0; i < count; ++i) {
      const size_t at = kConnections + kConnectionBytes * i;
      const auto argument = to_size(connectivity->number<uint32_t>(at));
      const auto instance = to_size(connectivity->number<uint32_t>(at + 4));
      const auto memory = connectivity->number<int32_t>(at + 8);
      if (instance >= kernel_at.size() || memory < 0 || to_size(memory) >= memory_count)
        fail(ErrorCode::kMalformed, "{}: connection {} joins instance {} and memory {}, and there are {} and {}", connectivity->what(), i,
             instance, memory, kernel_at.size(), memory_count);
      if (!kernel_at[instance]) continue;
      XclbinKernel& kernel = xclbin.kernels[*kernel_at[instance]];
      if (argument >= kernel.arguments.size())
        fail(ErrorCode::kMalformed, "{}: connection {} is of argument {}, and kernel {} has {}", connectivity->what(), i, argument,
             kernel.name, kernel.arguments.size());
      kernel.arguments[argument].memory = memory;
    }
  }
  return xclbin;
}

Xclbin load_xclbin(const std::filesystem::path& path) { return xclbin_from(read_bytes(path), path.string()); }

const XclbinKernel& kernel_of(const Xclbin& xclbin, std::string_view name, std::string_view where) {
  const auto found = std::ranges::find(xclbin.kernels, name, &XclbinKernel::name);
  if (found != xclbin.kernels.end()) return *found;
  std::vector<std::string> names;
  for (const XclbinKernel& kernel : xclbin.kernels) names.push_back(kernel.name);
  fail(ErrorCode::kMismatch, "{}: no kernel {}; it has {}", where, name,
       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace millrace::xrt
