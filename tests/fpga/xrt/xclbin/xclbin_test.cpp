// xclbin files: written and read back, and every kind of damage named.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "fpga/xrt/device/engine_design.h"
#include "fpga/xrt/xclbin/xclbin_file.h"
#include "tests/core/documents/expect_error.h"

namespace millrace::xrt {
namespace {

Xclbin random_design(std::mt19937_64& random) {
  const auto below = [&random](uint64_t bound) { return random() % bound; };
  const auto name = [&](std::string_view kind, size_t i) {
    static constexpr const char* kOdd[] = {"", "&", "<b>", "\"q\"", "[3]"};
    return fmt::format("{}{}{}", kind, i, kOdd[below(5)]);
  };
  Xclbin design{.platform = name("platform", 0), .target = below(2) == 0 ? XclbinTarget::kBoard : XclbinTarget::kSoftwareEmulation};
  const size_t memories = 1 + below(5);
  for (size_t i = 0; i < memories; ++i) design.memories.push_back({name("bank", i), random(), random()});
  for (size_t k = 0; k < 1 + below(4); ++k) {
    XclbinKernel kernel{.name = fmt::format("kernel{}", k), .map_bytes = static_cast<uint32_t>(4096 << below(4))};
    for (size_t i = 0; i < below(12); ++i) {
      kernel.arguments.push_back({.name = name("argument", i), .bytes = static_cast<uint32_t>(4 << below(2)), .offset = below(1 << 20)});
      if (below(2) == 0) kernel.arguments.back().memory = static_cast<int32_t>(below(memories));
    }
    for (size_t i = 0; i < 1 + below(3); ++i) kernel.instances.push_back({fmt::format("kernel{}_{}", k, i), random()});
    design.kernels.push_back(kernel);
  }
  return design;
}

void put(std::vector<std::byte>& bytes, size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof(value)); }

// The header of the section of a kind.
size_t section_header(const std::vector<std::byte>& bytes, uint32_t kind) {
  for (size_t at = 456;; at += 40) {
    uint32_t found = 0;
    std::memcpy(&found, bytes.data() + at, sizeof(found));
    if (found == kind) return at;
  }
}
size_t section_begin(const std::vector<std::byte>& bytes, uint32_t kind) {
  uint64_t offset = 0;
  std::memcpy(&offset, bytes.data() + section_header(bytes, kind) + 24, sizeof(offset));
  return offset;
}
std::vector<std::byte> with_text(std::vector<std::byte> bytes, std::string_view from, std::string_view to) {
  EXPECT_EQ(from.size(), to.size());
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t at = all.find(from);
  EXPECT_NE(at, std::string_view::npos) << from;
  std::memcpy(bytes.data() + at, to.data(), to.size());
  return bytes;
}

}  // namespace

TEST(Xclbin, IsReadBackAsItWasWritten) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const Xclbin design = random_design(random);
    ASSERT_EQ(xclbin_from(bytes_of(design), "design"), design) << i;
  }
}

TEST(Xclbin, NamesItsContentByItsUuid) {
  Xclbin design = engine_design();
  const auto uuid = [&design] {
    const std::vector<std::byte> bytes = bytes_of(design);
    return std::string(reinterpret_cast<const char*>(bytes.data()) + 416, 16);
  };
  const std::string first = uuid();
  EXPECT_EQ(uuid(), first);
  design.kernels[0].arguments[3].offset += 4;
  EXPECT_NE(uuid(), first);
}

TEST(Xclbin, SaysWhatIsWrong) {
  const std::vector<std::byte> good = bytes_of(engine_design());
  const auto refused = [](std::vector<std::byte> bytes, const std::string& words) {
    expect_error(ErrorCode::kMalformed, words, [&] { xclbin_from(bytes, "a.xclbin"); });
  };
  refused({}, "a.xclbin: 0 bytes; an xclbin has a header of 456");
  auto bytes = good;
  bytes[3] = std::byte{'x'};
  refused(bytes, "not an xclbin");
  bytes = good;
  bytes.resize(bytes.size() - 8);
  refused(bytes, "and its header says");
  bytes = good;
  put(bytes, 448, uint32_t{1} << 30);
  refused(bytes, "sections; 256 at most");
  bytes = good;
  put(bytes, section_header(bytes, 6) + 32, uint64_t{1} << 60);
  refused(bytes, "the file is damaged or cut short");
  bytes = good;
  put(bytes, section_header(bytes, 2), uint32_t{99});
  refused(bytes, "no section EMBEDDED_METADATA");
  bytes = good;
  put(bytes, section_header(bytes, 26), uint32_t{6});
  refused(bytes, "two sections MEM_TOPOLOGY");
  bytes = good;
  put(bytes, section_begin(bytes, 6), int32_t{-1});
  refused(bytes, "section MEM_TOPOLOGY: -1 entries");
  bytes = good;
  put(bytes, section_begin(bytes, 7) + 4 + 8, int32_t{7});
  refused(bytes, "section CONNECTIVITY: connection 0 joins instance 0 and memory 7");
  bytes = good;
  put(bytes, section_begin(bytes, 7) + 4, int32_t{200});
  refused(bytes, "connection 0 is of argument 200");
  refused(with_text(good, "millrace_conv_ce:", "millrace_conv_ce;"), "belongs to no kernel");
  refused(with_text(good, "<kernel name=\"m", "<kernel name=m\""), "a value in quotes is missing");
  refused(with_text(good, "id=\"3\"", "id=\"4\""), "argument 3 of kernel millrace_conv_ce has the id 4");
  refused(with_text(good, "offset=\"0x10\"", "offset=\"0xzz\""), "not a number");
  refused(with_text(good, "<?xml", "<!--l"), "does not end");
}

TEST(Xclbin, OfAnotherRegisterMapIsRefused) {
  Xclbin design = engine_design();
  check_design(design, "a.xclbin");
  design.kernels[0].arguments[2].offset = 0x24;
  expect_error(
      ErrorCode::kMismatch,
      "a.xclbin: argument 2 of kernel millrace_conv_ce is run (4 bytes at 0x24), and in register map 4 it is run (4 bytes at 0x20)",
      [&] { check_design(design, "a.xclbin"); });
  design = engine_design();
  design.kernels[0].arguments.pop_back();
  expect_error(ErrorCode::kMismatch, "has 22 arguments, and register map 4 has 23", [&] { check_design(design, "a.xclbin"); });
  design = engine_design();
  design.kernels[0].arguments.back().memory.reset();
  expect_error(ErrorCode::kMismatch, "is connected to no memory", [&] { check_design(design, "a.xclbin"); });
  design.kernels[0].name = "vadd";
  expect_error(ErrorCode::kMismatch, "a.xclbin: no kernel millrace_conv_ce; it has vadd", [&] { check_design(design, "a.xclbin"); });
}

}  // namespace millrace::xrt
