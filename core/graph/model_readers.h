// Which foreign files find_model (core/graph/zoo.h) takes besides the zoo's names and .textproto documents.
//
//   add_model_reader(".onnx", [](const std::filesystem::path& path) { return import_onnx(path).model; });
//
// Said by explicit calls before anything else runs, from one thread: deploy knows every format, core none of them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/documents/model.h"

namespace millrace {

using ModelReader = std::function<Model(const std::filesystem::path& path)>;
// Files whose names end so are read by `read`.
void add_model_reader(std::string ending, ModelReader read);

}  // namespace millrace
