// How a device is called when nobody named it. Internal to core/documents.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

// What it is and its place in the ring: "cpu0"; "vc709-0" where digits would run together.
std::string default_device_name(std::string_view device, size_t place);

}  // namespace millrace
