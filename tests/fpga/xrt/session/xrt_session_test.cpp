// Devices behind XRT's software emulation: the same bits as the functional model, and a named error for all that can be missing,
// wrong or dead. Nothing is timed but that nothing hangs.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "fpga/xrt/device/engine_design.h"
#include "fpga/xrt/device/session_client.h"
#include "fpga/xrt/device/xrt_convolution_engine.h"
#include "fpga/xrt/device/xrt_fpga.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/xrt/device/engine_cases.h"

namespace millrace::xrt {
namespace {

namespace fs = std::filesystem;

#ifdef MILLRACE_SESSION
constexpr const char* kSession = MILLRACE_SESSION;
#else
constexpr const char* kSession = "";
#endif

SessionOptions options() {
  SessionOptions options;
  options.session_program = kSession;
  options.device_program = MILLRACE_DEVICE;
  options.seconds = 60;
  return options;
}

// Private folders of sessions.
std::set<fs::path> folders() {
  std::set<fs::path> found;
  for (const auto& entry : fs::directory_iterator("/tmp"))
    if (entry.path().filename().string().starts_with("millrace-xrt-")) found.insert(entry.path());
  return found;
}

fs::path folder_of(pid_t process) {
  std::error_code gone;
  return fs::read_symlink(fmt::format("/proc/{}/cwd", process), gone);
}

// Folders that were not there before, and that no process works in: other tests' sessions come and go meanwhile.
bool leaves_folders(const std::set<fs::path>& before) {
  for (int i = 0; i < 500; ++i) {
    std::set<fs::path> left = folders();
    for (const fs::path& folder : before) left.erase(folder);
    for (const auto& entry : fs::directory_iterator("/proc"))
      if (const int process = std::atoi(entry.path().filename().c_str()); process > 0) left.erase(folder_of(process));
    if (left.empty()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

bool is_gone(pid_t process) {
  for (int i = 0; i < 500; ++i) {
    if (kill(process, 0) != 0) return true;
    std::ifstream status(fmt::format("/proc/{}/stat", process));
    std::string number, name, state;
    status >> number >> name >> state;
    if (state == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class XrtSession : public testing::Test {
 protected:
  void SetUp() override {
    if (*kSession == '\0') GTEST_SKIP() << "no XRT when this was configured (libxrt-dev)";
    if (find_xrt().shim.empty()) GTEST_SKIP() << "no libxrt_swemu.so.2 here: XRT's shim for software emulation (libxrt1)";
  }
};

// Work that takes the device a good while.
PhaseShape long_phase() {
  return {.convolution = {.inputs = 64, .outputs = 64, .height = 96, .width = 96, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
          .samples = 4,
          .shift = 14};
}

}  // namespace

TEST_F(XrtSession, EqualsTheFunctionalModel) {
  const auto host = make_host_convolution_engine();
  for (const size_t piece : {size_t{600}, size_t{1} << 20}) {
    const auto engine = make_xrt_convolution_engine(std::make_unique<SessionClient>(options()), {.piece_bytes = piece});
    compare_engines(*host, *engine, 12, 7 + piece);
  }
}

// More at once than the shim's first messages, and than one of its messages holds.
TEST_F(XrtSession, MovesTransfersOfEverySize) {
  SessionClient device(options());
  const uint64_t size = 20 << 20;
  const uint32_t buffer = device.allocate(size);
  std::vector<uint8_t> data(size), back(size);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{5000}, size_t{300'000}, size_t{9} << 20, size_t{size}}) {
    device.write(buffer, 0, std::span(data).first(bytes));
    device.read(buffer, 0, std::span(back).first(bytes));
    ASSERT_TRUE(std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(bytes), data.begin())) << bytes;
  }
  device.read(buffer, 12'345, std::span(back).first(777));
  EXPECT_TRUE(std::equal(back.begin(), back.begin() + 777, data.begin() + 12'345));
}

TEST_F(XrtSession, LeavesNothingBehind) {
  const std::set<fs::path> before = folders();
  fs::path folder;
  pid_t processes[2];
  {
    SessionClient device(options());
    processes[0] = device.session_process();
    processes[1] = device.device_process();
    EXPECT_EQ(kill(processes[1], 0), 0);
    folder = folder_of(processes[0]);
    EXPECT_TRUE(folders().contains(folder)) << folder;
  }
  for (const pid_t process : processes) EXPECT_TRUE(is_gone(process));
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_FALSE(leaves_folders(before));
}

TEST_F(XrtSession, SeveralDevicesOfOneProcess) {
  SessionClient first(options()), second(options());
  EXPECT_NE(first.device_process(), second.device_process());
  const std::vector<uint8_t> data = {1, 2, 3, 4};
  std::vector<uint8_t> back(4);
  for (DeviceLink* device : {static_cast<DeviceLink*>(&first), static_cast<DeviceLink*>(&second)}) device->allocate(4096);
  first.write(1, 0, data);
  second.write(1, 0, std::vector<uint8_t>{9, 9, 9, 9});
  first.read(1, 0, back);
  EXPECT_EQ(back, data);
}

TEST_F(XrtSession, ADeviceKilledInTheMiddleOfARunIsNamed) {
  auto client = std::make_unique<SessionClient>(options());
  const pid_t device = client->device_process(), session = client->session_process();
  const auto engine = make_xrt_convolution_engine(std::move(client), {});
  const PhaseShape phase = long_phase();
  const std::vector<int16_t> input(phase.input_elements(), 3), weight(phase.convolution.weight_elements(), 5);
  std::thread killer([device] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    kill(device, SIGKILL);
  });
  const auto forward = [&] {
    PhaseCounters counters;
    engine->forward(phase, {.input = input, .weight = weight}, &input, counters);
  };
  expect_error(ErrorCode::kTimeout, fmt::format("the emulated device's process {} was killed by signal 9", device), forward);
  killer.join();
  // And ever after.
  expect_error(ErrorCode::kTimeout, "the XRT session ended", forward);
  EXPECT_TRUE(is_gone(session));
}

TEST_F(XrtSession, AStoppedDeviceIsATimeout) {
  SessionOptions impatient = options();
  impatient.seconds = 2;
  auto client = std::make_unique<SessionClient>(impatient);
  kill(client->device_process(), SIGSTOP);
  const auto engine = make_xrt_convolution_engine(std::move(client), {});
  const PhaseShape phase;
  const std::vector<int16_t> one(1, 1);
  expect_error(ErrorCode::kTimeout, "within 2 seconds", [&] {
    PhaseCounters counters;
    engine->forward(phase, {.input = one, .weight = one}, &one, counters);
  });
}

TEST_F(XrtSession, ASessionThatDiesIsNamed) {
  SessionClient device(options());
  device.allocate(4096);
  kill(device.session_process(), SIGKILL);
  std::vector<uint8_t> bytes(4);
  expect_error(ErrorCode::kTimeout, "the XRT session ended", [&] { device.read(1, 0, bytes); });
}

TEST_F(XrtSession, AnotherRegisterMapIsRefused) {
  SessionOptions old = options();
  old.device_program = MILLRACE_OLD_DEVICE;
  old.body = fmt::format("{:#x}", kIdentityMark | 99);
  expect_error(ErrorCode::kMismatch, fmt::format("the device has register map 99, and this program has {}", kMapVersion),
               [&] { SessionClient device(old); });
  old.body = "0xdeadbeef";
  expect_error(ErrorCode::kMismatch, "holds 0xdeadbeef; its kernel does not have Millrace's register map",
               [&] { SessionClient device(old); });
}

TEST_F(XrtSession, AnUnknownBodyIsNamed) {
  SessionOptions wrong = options();
  wrong.body = "functionel";
  expect_error(ErrorCode::kUnavailable, "no body of a device is named \"functionel\"; did you mean \"functional\"?",
               [&] { SessionClient device(wrong); });
}

TEST_F(XrtSession, ABodyWithoutItsPlanIsNamed) {
  SessionOptions wrong = options();
  wrong.body = "rtl:nowhere.textproto#0";
  expect_error(ErrorCode::kUnavailable, "millrace-xrt-device: nowhere.textproto", [&] { SessionClient device(wrong); });
}

TEST_F(XrtSession, WhatIsMissingIsNamed) {
  const std::set<fs::path> before = folders();
  SessionOptions wrong = options();
  wrong.device_program = "/nowhere/millrace-xrt-device";
  expect_error(ErrorCode::kUnavailable, "the program of the emulated device is missing: /nowhere/millrace-xrt-device",
               [&] { SessionClient device(wrong); });
  wrong = options();
  wrong.session_program = "/nowhere/millrace-xrt-session";
  expect_error(ErrorCode::kUnavailable, "millrace-xrt-session is missing", [&] { SessionClient device(wrong); });
  EXPECT_FALSE(leaves_folders(before));
}

// XRT's library alone in a folder, without the shim beside it.
TEST_F(XrtSession, AMissingShimIsNamed) {
  const fs::path folder = fs::path(testing::TempDir()) / "xrt_without_shim";
  fs::create_directories(folder);
  fs::copy_file(find_xrt().runtime, folder / "libxrt_coreutil.so.2", fs::copy_options::overwrite_existing);
  setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  expect_error(ErrorCode::kUnavailable, "XRT's shim for software emulation is missing", [] { SessionClient device(options()); });
  unsetenv("LD_LIBRARY_PATH");
  fs::remove_all(folder);
}

TEST_F(XrtSession, ABadXclbinIsNamed) {
  const fs::path file = fs::path(testing::TempDir()) / "bad.xclbin";
  SessionOptions wrong = options();
  wrong.xclbin = file;
  fs::remove(file);
  expect_error(ErrorCode::kNotFound, "bad.xclbin", [&] { SessionClient device(wrong); });
  std::ofstream(file) << std::string(1000, 'x');
  expect_error(ErrorCode::kMalformed, "not an xclbin", [&] { SessionClient device(wrong); });
  Xclbin design = engine_design();
  design.kernels[0].arguments[0].name = "mode";
  save(design, file);
  expect_error(ErrorCode::kMismatch, "argument 0 of kernel millrace_conv_ce is mode", [&] { SessionClient device(wrong); });
  save(engine_design(), file);
  SessionClient good(wrong);
  fs::remove(file);
}

TEST_F(XrtSession, AMissingBoardIsNamed) {
  if (!find_xrt().boards.empty()) GTEST_SKIP() << "a board is here, and this test is for machines without";
  const fs::path file = fs::path(testing::TempDir()) / "board.xclbin";
  save(engine_design(), file);
  SessionOptions board = options();
  board.emulated = false;
  expect_error(ErrorCode::kUsage, "a board needs the file of its design", [&] { SessionClient device(board); });
  board.xclbin = file;
  expect_error(ErrorCode::kUnavailable, "no FPGA board 0", [&] { SessionClient device(board); });
  fs::remove(file);
}

}  // namespace millrace::xrt
