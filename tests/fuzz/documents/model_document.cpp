#include <cstddef>
#include <cstdint>

#include "core/documents/model.h"
#include "tests/fuzz/documents/accepted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return millrace::fuzz::try_document({reinterpret_cast<const char*>(data), size}, millrace::parse_model);
}
