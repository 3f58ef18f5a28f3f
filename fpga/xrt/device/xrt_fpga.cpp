#include "fpga/xrt/device/xrt_fpga.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

#include "core/base/error.h"
#include "fpga/xrt/device/session_client.h"
#include "fpga/xrt/device/xrt_chain_engine.h"
#include "fpga/xrt/device/xrt_convolution_engine.h"
#include "fpga/xrt/device/xrt_recurrence_engine.h"

namespace millrace {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSessionProgram = "millrace-xrt-session";
constexpr const char* kDeviceProgram = "millrace-xrt-device";

}  // namespace

fs::path program_beside_this(const std::string& name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path program = self.parent_path() / name;
  return fs::exists(program, error) ? program : fs::path();
}

std::unique_ptr<EmulatedFpga> make_xrt_fpga(const XrtFpgaOptions& options) {
  const auto found = [](const fs::path& given, const char* name) { return given.empty() ? program_beside_this(name) : given; };
  auto client = std::make_unique<xrt::SessionClient>(xrt::SessionOptions{.emulated = options.emulated,
                                                                         .board = options.board,
                                                                         .xclbin = options.xclbin,
                                                                         .body = options.body,
                                                                         .plan = options.plan,
                                                                         .session_program = found(options.session_program, kSessionProgram),
                                                                         .device_program = found(options.device_program, kDeviceProgram),
                                                                         .seconds = options.seconds});
  const std::string description =
      options.emulated
          ? fmt::format("FPGA in XRT's software emulation (conv_ce, sbe and pe_chain, 16-bit fixed point; body {})", options.body)
          : fmt::format("FPGA through XRT ({}; conv_ce, 16-bit fixed point)", client->name());
  xrt::DeviceLink& link = *client;  // the convolutions' engine has it, and goes last
  auto recurrence = xrt::make_xrt_recurrence_engine(link, description);
  auto chains = xrt::make_xrt_chain_engine(link, description);
  return make_fpga_on(xrt::make_xrt_convolution_engine(std::move(client), {.piece_bytes = options.piece_bytes}), std::move(recurrence),
                      std::move(chains), description);
}

XrtFindings find_xrt() {
  XrtFindings findings;
  // Looked for as the session finds it, without staying loaded.
  for (const char* name : {"libxrt_coreutil.so.2", "/opt/xilinx/xrt/lib/libxrt_coreutil.so.2"}) {
    void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) continue;
    link_map* map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) findings.runtime = map->l_name;
    dlclose(library);
    break;
  }
  std::error_code error;
  if (!findings.runtime.empty()) {
    const fs::path shim = fs::path(findings.runtime).parent_path() / "libxrt_swemu.so.2";
    if (fs::exists(shim, error)) findings.shim = shim.string();
  }
  findings.session_program = program_beside_this(kSessionProgram).string();
  findings.device_program = program_beside_this(kDeviceProgram).string();
  for (const auto& entry : fs::directory_iterator("/sys/bus/pci/drivers/xocl", error))
    if (const std::string name = entry.path().filename().string(); name.find(':') != std::string::npos) findings.boards.push_back(name);
  std::ranges::sort(findings.boards);
  return findings;
}

}  // namespace millrace
