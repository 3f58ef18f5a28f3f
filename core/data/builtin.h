// The data sets with a name of their own, and where they lie on this machine. Internal to core/data.
//
//   const DataSplit data = load_digits();
//
// Both are loaded through core/data/dataset.h's load_data; this header exists for it and for tests.
#pragma once

#include <filesystem>

#include "core/data/dataset.h"

namespace millrace {

// The folder of data that comes with Millrace, for example "digits". Looked for in $MILLRACE_DATA_DIR when that is set
// (and then nowhere else), in ../share/millrace beside the running program's folder, and in the source tree this was
// built from. Fails with kNotFound naming every place.
std::filesystem::path shipped_data(const std::filesystem::path& name);

DataSplit load_digits();

inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";  // where Debian puts it
// Fails with kNotFound naming the package to install when the folder does not exist.
DataSplit load_fashion_mnist(const std::filesystem::path& folder = kFashionMnistFolder);

}  // namespace millrace
