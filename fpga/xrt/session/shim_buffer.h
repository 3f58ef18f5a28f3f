// A way around a fault of XRT's software emulation up to 2.13: it grows its message buffer with realloc() and goes on with
// the old address, so that a larger transfer than the ones before ends in freed memory.
//
//   keep_shim_buffer_in_place("/usr/lib/x86_64-linux-gnu/libxrt_swemu.so.2");     // before the device is opened
//
// This program defines malloc and realloc; for the shim's own calls, and only where the shim is as old as that, they take room
// enough in the first place (address space: pages that are never written are never there), so that nothing has to move. All
// other calls go to the C library untouched. Internal to fpga/xrt/session.
#pragma once

#include <filesystem>

namespace millrace::xrt {

// Whether the shim has the fault, and is worked around from now on.
bool keep_shim_buffer_in_place(const std::filesystem::path& shim);

}  // namespace millrace::xrt
