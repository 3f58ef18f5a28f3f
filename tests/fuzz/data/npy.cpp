// Arrays of NumPy from arbitrary bytes: either as many elements as the shape says, and samples of them, or an Error.
#include "core/data/npy.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/data/arrays.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  try {
    const NpyArray array = parse_npy(std::as_bytes(std::span(data, size)), "file");
    MILLRACE_CHECK(array.bytes.size() <= size && static_cast<int64_t>(array.bytes.size()) == array.elements() * array.width,
                   "{} bytes for {}", array.bytes.size(), text_of(array));
    const Dataset samples = dataset_from(array, size % 2 == 0 ? ArrayLayout::kGuess : ArrayLayout::kSteps, "file");
    MILLRACE_CHECK(samples.size() * samples.shape.elements() == array.elements(), "{} samples of {}", samples.size(), text_of(array));
  } catch (const Error&) {
  }
  return 0;
}
