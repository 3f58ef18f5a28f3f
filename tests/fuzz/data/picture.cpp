// Pictures from arbitrary bytes: either as many rows as the header says, brought to a small size, or an Error.
#include "core/data/picture.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/data/picture_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  constexpr int64_t kMostPixels = 1 << 20;  // larger ones are as right and take longer
  try {
    const PictureFacts facts = read_picture_facts(bytes, "file");
    MILLRACE_CHECK(facts.shape.plane() > 0 && facts.shape.plane() <= kMostPicturePixels, "{} pixels", facts.shape.plane());
    if (facts.shape.plane() > kMostPixels) return 0;
    for (const Shape& shape : {Shape{3, 5, 7}, Shape{1, 40, 3}}) {
      std::vector<uint8_t> pixels(static_cast<size_t>(shape.elements()));
      read_picture(bytes, "file", {.shape = shape, .fit = shape.channels == 1 ? PictureFit::kStretch : PictureFit::kCrop}, pixels);
    }
  } catch (const Error&) {
  }
  return 0;
}
