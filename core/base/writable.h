// Whether a file can be written where somebody wants it, asked before the work that it is to hold.
//
//   require_writable("--trace", flags.trace);          // kNotFound: no such folder; kIo: the operating system's reason
//
// Asks by making a file beside it and removing it at once: permissions alone do not tell, of file systems that are read-only or of
// somebody who may do everything. What stands there already is left as it is; of a device or
// pipe, which is written into, only its permissions are asked. An empty path asks for nothing.
#pragma once

#include <filesystem>
#include <string_view>

namespace millrace {

void require_writable(std::string_view flag, const std::filesystem::path& path);

}  // namespace millrace
