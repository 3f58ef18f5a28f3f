// Which foreign files load_weights (core/train/checkpoint.h) takes besides checkpoints and .safetensors.
//
//   add_weights_reader(".onnx", [](const std::filesystem::path& path) { return import_onnx(path).weights; });
//
// Said by explicit calls before anything else runs, from one thread.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/train/safetensors.h"

namespace millrace {

using WeightsReader = std::function<TensorMap(const std::filesystem::path& path)>;
// Files whose names end so are read by `read`.
void add_weights_reader(std::string ending, WeightsReader read);

}  // namespace millrace
