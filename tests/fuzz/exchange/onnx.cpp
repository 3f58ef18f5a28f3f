// ONNX files from arbitrary bytes: either a network whose every parameter has its tensor, or an Error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/exchange/onnx_import.h"
#include "core/graph/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  try {
    const Imported imported = import_onnx(std::as_bytes(std::span(data, size)), "file");
    const Graph graph(imported.model);
    size_t parameters = 0;
    for (const Node& node : graph.nodes()) parameters += node.parameters.size();
    MILLRACE_CHECK(parameters == imported.weights.size() && imported.tensors.size() == parameters, "{} parameters, {} tensors", parameters,
                   imported.weights.size());
  } catch (const Error&) {
  }
  return 0;
}
