// WAV files from arbitrary bytes: either sound that is no longer than the file, or an Error.
#include "core/data/wav.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "core/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  try {
    const WavSound sound = parse_wav(std::as_bytes(std::span(data, size)), "file");
    MILLRACE_CHECK(sound.rate > 0 && 2 * sound.samples.size() + 44 <= size + 8, "{} samples at {} Hz from {} bytes", sound.samples.size(),
                   sound.rate, size);
  } catch (const Error&) {
  }
  return 0;
}
