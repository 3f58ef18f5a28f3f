// Host code and generated hardware: one register map in kernel.xml, SystemVerilog, emulation and host; and the host's code driving the
// hardware itself, simulated by Icarus.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>

#include "core/base/files.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "fpga/conv_ce/generator/device_files.h"
#include "fpga/conv_ce/generator/device_top.h"
#include "fpga/xrt/device/engine_design.h"
#include "fpga/xrt/device/mini_batch_device.h"
#include "fpga/xrt/emulator/emulated_kernel.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/train/temporary_folder.h"

namespace millrace::xrt {
namespace {

namespace fs = std::filesystem;

Model small_model() {
  ModelBuilder net("small", {2, 6, 6});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 3, {.kernel = 3, .pad = 1});
  return net.finish();
}

DeviceDesign small_design() {
  const Graph graph(small_model());
  PlanRequest request{.cluster = uniform_cluster("u280", 1), .mini_batch = 4, .micro_batch = 1};
  std::vector<Shard> shards = shards_from_cuts(graph, {}, {});
  for (Shard& shard : shards)
    for (const Phase phase : {Phase::kForward, Phase::kErrorBack, Phase::kParameterGradient})
      shard.phases.push_back({.phase = phase, .engine = "conv_ce", .multipliers = 9 * 4});
  const auto weights = [](const Node&, const ParameterSpec& parameter) {
    std::vector<double> values(static_cast<size_t>(parameter.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 1000) / 1000.0 - 0.5;
    return values;
  };
  return device_design(assemble_plan(graph, request, std::move(shards)), graph, 0, weights);
}

// What kernel.xml says of the kernel, as an xclbin's metadata would say it to the host.
XclbinKernel kernel_of_xml(const std::string& xml) {
  XclbinKernel kernel;
  std::smatch found;
  EXPECT_TRUE(std::regex_search(xml, found, std::regex("<kernel name=\"([^\"]*)\"")));
  kernel.name = found[1];
  EXPECT_TRUE(std::regex_search(xml, found, std::regex("name=\"s_axi_control\"[^>]*range=\"(0x[0-9a-f]+)\"")));
  kernel.map_bytes = static_cast<uint32_t>(std::stoul(found[1], nullptr, 16));
  const std::regex argument(
      "<arg name=\"(\\w+)\" addressQualifier=\"([01])\" id=\"(\\d+)\"[^>]*size=\"(0x[0-9a-f]+)\" offset=\"(0x[0-9a-f]+)\"");
  for (std::sregex_iterator at(xml.begin(), xml.end(), argument), end; at != end; ++at) {
    EXPECT_EQ(std::stoul((*at)[3]), kernel.arguments.size());
    kernel.arguments.push_back({.name = (*at)[1],
                                .bytes = static_cast<uint32_t>(std::stoul((*at)[4], nullptr, 16)),
                                .offset = std::stoul((*at)[5], nullptr, 16),
                                .memory = (*at)[2] == "1" ? std::optional<int32_t>(0) : std::nullopt});
  }
  return kernel;
}

// The places that control_registers.sv decodes, by their names there.
std::map<std::string, uint64_t> places_of_sv(const std::string& text) {
  std::map<std::string, uint64_t> places;
  const std::regex place("localparam logic \\[11:0\\] (\\w+) = 12'h([0-9a-f]+);");
  for (std::sregex_iterator at(text.begin(), text.end(), place), end; at != end; ++at) places[(*at)[1]] = std::stoul((*at)[2], nullptr, 16);
  return places;
}

class GeneratedDevice : public testing::Test {
 protected:
  void SetUp() override { write_device(design_, folder_.path() / "d", {.test_samples = kSamples}); }
  std::string file(const char* name) const { return read_text(folder_.path() / "d" / name); }

  static constexpr int64_t kSamples = 2;
  const DeviceDesign design_ = small_design();
  testing_support::TemporaryFolder folder_;
};

TEST_F(GeneratedDevice, HasTheKernelThatTheHostLooksFor) {
  XclbinKernel kernel = kernel_of_xml(file("kernel.xml"));
  const Xclbin expected = engine_design();
  EXPECT_EQ(kernel.name, expected.kernels[0].name);
  EXPECT_EQ(kernel.map_bytes, expected.kernels[0].map_bytes);
  EXPECT_EQ(kernel.arguments, expected.kernels[0].arguments);
  // The check that a board's file has to pass before it is loaded.
  kernel.instances = expected.kernels[0].instances;
  Xclbin board = expected;
  board.kernels[0] = kernel;
  check_design(board, "generated");
  EXPECT_NE(file("connectivity.cfg").find(fmt::format("nk={}:1:{}\n", kernel.name, kernel.instances[0].name)), std::string::npos);
  EXPECT_NE(file("package.tcl").find("-kernel_name " + kernel.name), std::string::npos);
}

TEST_F(GeneratedDevice, DecodesTheHostsOffsets) {
  std::map<std::string, uint64_t> places = places_of_sv(file("rtl/control_registers.sv"));
  std::map<std::string, uint64_t> in_xml;
  for (const XclbinArgument& argument : kernel_of_xml(file("kernel.xml")).arguments) in_xml[argument.name] = argument.offset;
  for (const auto& [sv, argument] : std::map<std::string, std::string>{{"PHASE", "phase"},
                                                                       {"FLAGS", "flags"},
                                                                       {"RUN", "run"},
                                                                       {"SAMPLES", "samples"},
                                                                       {"PARAMETERS", "parameters"},
                                                                       {"RESULT", "result"}}) {
    ASSERT_TRUE(places.contains(sv) && in_xml.contains(argument)) << sv;
    EXPECT_EQ(places[sv], in_xml[argument]) << sv;
  }
  EXPECT_EQ(places["CONTROL"], kControl);
  EXPECT_EQ(places["IDENTITY"], kIdentityRegister);
  // What the host writes for a start arrives in the emulation's registers as it was meant.
  const PhaseRegisters sent = test_run(design_, kSamples);
  std::vector<uint8_t> registers(kMapBytes);
  for (const RegisterWrite& write : writes_of(sent)) std::memcpy(registers.data() + write.offset, &write.value, sizeof(write.value));
  const PhaseRegisters found = registers_from(registers);
  EXPECT_EQ(found.scalars, sent.scalars);
  EXPECT_EQ(found.pointers, sent.pointers);
  EXPECT_EQ(registers[0], kStartBit);
  // And they are what the testbench plays.
  std::istringstream lines(file("vectors/start.hex"));
  for (const RegisterWrite& write : writes_of(sent)) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(line, fmt::format("{:08x}{:08x}", write.offset, write.value));
  }
}

// A device that has phases of its own refuses a mini-batch, as a generated one refuses theirs.
TEST_F(GeneratedDevice, EmulatedDevicesRefuseItsPhase) {
  DeviceMemory memory;
  ASSERT_TRUE(memory.allocate(4096, 4096));
  PhaseRegisters registers = registers_of_mini_batch(kSamples, kLoads, 9);
  registers.pointers[kResult] = 4096;
  make_phase_body("functional")->run(registers, memory);
  ResultHeader header;
  std::memcpy(&header, memory.at(4096, sizeof(header)).data(), sizeof(header));
  EXPECT_EQ(header.status, kBadPhase);
  expect_error(ErrorCode::kUnavailable, "device: MB refused: a phase that the device does not have",
               [&] { check_result(header, 9, "MB", "device"); });
}

// The generated hardware behind the host's link: every run is a simulation, whose memory outside is the link's.
class SimulatedLink final : public DeviceLink {
 public:
  SimulatedLink(fs::path folder, const DeviceDesign& design)
      : folder_(std::move(folder)), memory_(static_cast<size_t>(memory_places(design).words) * 8) {}

  uint32_t allocate(uint64_t bytes) override {
    buffers_.push_back(next_);
    next_ += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    EXPECT_LE(next_, memory_.size());
    return static_cast<uint32_t>(buffers_.size());
  }
  void release(uint32_t) override {}
  void write(uint32_t buffer, uint64_t offset, std::span<const uint8_t> data) override {
    std::ranges::copy(data, memory_.begin() + static_cast<std::ptrdiff_t>(buffers_.at(buffer - 1) + offset));
  }
  void read(uint32_t buffer, uint64_t offset, std::span<uint8_t> data) override {
    std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(buffers_.at(buffer - 1) + offset), data.size(), data.begin());
  }
  void finish() override {}

  void run(const PhaseRegisters& registers) override {
    PhaseRegisters placed = registers;
    for (uint64_t& pointer : placed.pointers) pointer = pointer == 0 ? 0 : buffers_.at(pointer - 1);
    std::string start, words;
    for (const RegisterWrite& write : writes_of(placed)) start += fmt::format("{:08x}{:08x}\n", write.offset, write.value);
    for (size_t at = 0; at < memory_.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, memory_.data() + at, sizeof(word));
      words += fmt::format("{:016x}\n", word);
    }
    write_atomically(folder_ / "vectors" / "start.hex", std::string_view(start));
    write_atomically(folder_ / "vectors" / "memory.hex", std::string_view(words));
    const std::string command = fmt::format(
        "cd '{}' && iverilog -g2012 -o bench.vvp -s testbench rtl/*.sv testbench.sv > build.log 2>&1 && vvp bench.vvp +keep_memory > "
        "run.log 2>&1",
        folder_.string());
    ASSERT_EQ(std::system(command.c_str()), 0) << read_text(folder_ / "build.log");
    log = read_text(folder_ / "run.log");
    std::ifstream after(folder_ / "vectors" / "memory_after.hex");
    size_t at = 0;
    for (std::string text; after >> text;) {
      if (text.starts_with("//") || text.starts_with("@")) continue;
      if (text.size() != 16) continue;
      const bool known = text.find_first_of("xX") == std::string::npos;
      const uint64_t word = known ? std::stoull(text, nullptr, 16) : 0;
      ASSERT_LT(at, memory_.size());
      std::memcpy(memory_.data() + at, &word, sizeof(word));
      at += 8;
    }
    ASSERT_EQ(at, memory_.size());
  }

  std::string log;

 private:
  fs::path folder_;
  std::vector<uint8_t> memory_;
  std::vector<uint64_t> buffers_;
  uint64_t next_ = kPageBytes;
};

TEST_F(GeneratedDevice, RunsForTheHost) {
  if (std::system("iverilog -V > /dev/null 2>&1") != 0) GTEST_SKIP() << "iverilog is not installed";
  const auto folder = folder_.path() / "d";
  SimulatedLink link(folder, design_);
  const OutsideGradients expected = outside_gradients(design_, device_vectors(design_, fewest_rows(design_), kSamples, 1));
  MiniBatchDevice device(link, "the generated device", static_cast<size_t>(all_elements(stored_regions(design_))));
  const std::vector<int16_t> parameters = outside_parameters(design_);
  for (int round = 0; round < 2; ++round) {  // the second with parameters that are there already, and another run's number
    const std::vector<int32_t> found = device.run(parameters, kSamples);
    EXPECT_NE(link.log.find("PASS"), std::string::npos) << link.log;
    ASSERT_EQ(found.size(), expected.values.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i] & expected.mask[i], expected.values[i] & expected.mask[i]) << i;
  }
  // Another weight than the testbench expects: the hardware computes with what the host sent.
  std::vector<int16_t> others = parameters;
  others[0] = static_cast<int16_t>(others[0] ^ 0x100);
  device.run(others, kSamples);
  EXPECT_NE(link.log.find("FAIL"), std::string::npos) << link.log;
}

// A device that loads nothing: what it streams still has its place behind `parameters`.
class RecordingLink final : public DeviceLink {
 public:
  uint32_t allocate(uint64_t bytes) override {
    buffers.push_back(bytes);
    return static_cast<uint32_t>(buffers.size());
  }
  void release(uint32_t) override {}
  void write(uint32_t, uint64_t, std::span<const uint8_t>) override {}
  void read(uint32_t, uint64_t, std::span<uint8_t> data) override {
    const ResultHeader header{.mark = kIdentity, .run = static_cast<uint32_t>(runs.size()), .status = kDone};
    std::memcpy(data.data(), &header, sizeof(header));
  }
  void run(const PhaseRegisters& registers) override { runs.push_back(registers); }
  void finish() override {}

  std::vector<uint64_t> buffers;
  std::vector<PhaseRegisters> runs;
};

TEST(MiniBatchDevice, HasABufferWhereNothingIsSent) {
  RecordingLink link;
  MiniBatchDevice device(link, "device 1", /*gradients=*/4, /*bytes_reached=*/8192);
  for (int round = 0; round < 2; ++round) device.run({}, kSamples);
  ASSERT_EQ(link.buffers.size(), 2U);
  EXPECT_EQ(link.buffers[1], 8192U);
  for (const PhaseRegisters& run : link.runs) EXPECT_EQ(run.pointers[kParameters], 2U);
}

}  // namespace
}  // namespace millrace::xrt
