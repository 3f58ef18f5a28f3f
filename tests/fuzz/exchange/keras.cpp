// Architectures of Keras from arbitrary bytes beside weights that are there: either a network whose every parameter has its tensor, or an
// Error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/exchange/keras_import.h"
#include "core/graph/graph.h"
#include "tests/source_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  static const std::vector<std::byte> weights = read_bytes(MILLRACE_SOURCE_DIR "/tests/core/exchange/keras/functional.weights.h5");
  try {
    const Imported imported = import_keras({reinterpret_cast<const char*>(data), size}, weights, "file");
    const Graph graph(imported.model);
    size_t parameters = 0;
    for (const Node& node : graph.nodes()) parameters += node.parameters.size();
    MILLRACE_CHECK(parameters == imported.weights.size(), "{} parameters, {} tensors", parameters, imported.weights.size());
  } catch (const Error&) {
  }
  return 0;
}
