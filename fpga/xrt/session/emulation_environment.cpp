#include "fpga/xrt/session/emulation_environment.h"

#include <dlfcn.h>
#include <unistd.h>
#include <xrt/xrt_device.h>

#include <cstdlib>
#include <system_error>

#include "core/base/error.h"
#include "core/base/files.h"
#include "fpga/xrt/session/shim_buffer.h"

namespace millrace::xrt {

namespace {

namespace fs = std::filesystem;

// AMD's number, in decimal as the shim reads it; one device with the default of 4 GiB.
constexpr const char* kEmconfig =
    R"({"Version": {"FileVersion": "2.0", "ToolVersion": "2022.1"},
 "Platform": {"UnifiedPlatform": "true", "ExpandedPR": "true",
  "Boards": [{"NumBoards": "1", "Devices": [{"Name": "millrace_emulated", "HalMajorVersion": "2", "HalMinorVersion": "0",
   "VendorId": "4334", "SubsystemVendorId": "0", "DeviceVersion": "0", "DataAlignment": "4096", "OclFreqency": "300", "NumDevices": "1"}]}]}}
)";
constexpr const char* kModel = "vitis/data/emulation/unified/cpu_em/generic_pcie/model/genericpciemodel";

// The folder that this process's XRT lies in.
fs::path library_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&xrtDeviceOpen), &info) == 0 || info.dli_fname == nullptr)
    fail(ErrorCode::kUnavailable, "XRT's libraries cannot be found in this process; install libxrt1");
  return fs::canonical(info.dli_fname).parent_path();
}

void link(const fs::path& target, const fs::path& place) {
  make_folders(place.parent_path());
  std::error_code error;
  fs::create_symlink(target, place, error);
  if (error) fail(ErrorCode::kIo, "{}: {}", place.string(), error.message());
}

// $XILINX_XRT/lib with links to what is installed.
void make_prefix(const fs::path& libraries, const fs::path& prefix) {
  for (const auto& entry : fs::directory_iterator(libraries)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libxrt_") && name.ends_with(".so.2")) link(entry.path(), prefix / "lib" / name);
  }
}

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

}  // namespace

void enter_emulation(const EmulationOptions& options) {
  const fs::path libraries = library_folder();
  const fs::path shim = libraries / "libxrt_swemu.so.2";
  if (!fs::exists(shim))
    fail(ErrorCode::kUnavailable, "XRT's shim for software emulation is missing: {}; it comes with Debian's libxrt1", shim.string());
  if (access(options.device_program.c_str(), X_OK) != 0)
    fail(ErrorCode::kUnavailable, "the program of the emulated device is missing: {}; install Millrace again, or build millrace-xrt-device",
         options.device_program.string());
  make_prefix(libraries, options.folder / "xrt");
  link(fs::absolute(options.device_program), options.folder / kModel);
  write_atomically(options.folder / "emconfig.json", kEmconfig);
  set("XILINX_XRT", options.folder / "xrt");
  set("XILINX_VITIS", options.folder / "vitis");
  set("XCL_EMULATION_MODE", "sw_emu");
  set("EMCONFIG_PATH", options.folder);
  set("USER", options.folder.filename());
  set("MILLRACE_XRT_PID_FILE", options.folder / kPidFile);
  set("MILLRACE_XRT_BODY", options.body);
  for (const char* name : {"EMULATION_SOCKETID", "XILINX_HLS", "XILINX_SDX", "XILINX_OPENCL", "XILINX_SCOUT"}) unsetenv(name);
  fs::current_path(options.folder);
  keep_shim_buffer_in_place(shim);
}

void enter_board(const fs::path& folder) {
  if (std::getenv("XILINX_XRT") != nullptr) return;
  make_prefix(library_folder(), folder / "xrt");
  set("XILINX_XRT", folder / "xrt");
}

}  // namespace millrace::xrt
