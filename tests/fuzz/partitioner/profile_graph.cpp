#include <cstddef>
#include <cstdint>

#include "tests/fuzz/partitioner/planned.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return millrace::fuzz::try_profile({reinterpret_cast<const char*>(data), size}, millrace::parse_pipedream_graph);
}
