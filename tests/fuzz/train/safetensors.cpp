// Any bytes either fail with an Error or are a file whose content survives being written and read again.
#include "core/train/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::SafetensorsFile file;
  try {
    file = millrace::decode_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const millrace::Error&) {
    return 0;
  }
  if (millrace::decode_safetensors(millrace::encode_safetensors(file), "written") != file) std::abort();
  return 0;
}
