// IDX images and labels from arbitrary bytes: either a consistent data set comes out, or an Error.
// An input is the length of the images' file (two bytes, little endian), that file, and the labels' file.
#include "core/data/idx.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "core/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  if (size < 2) return 0;
  const std::span<const std::byte> files = std::as_bytes(std::span(data, size)).subspan(2);
  const size_t images_size = std::min(files.size(), static_cast<size_t>(data[0] | data[1] << 8));
  for (const int64_t classes : {0, 10}) {
    try {
      const Dataset parsed = parse_idx_images(files.first(images_size), "images", files.subspan(images_size), "labels", classes);
      const auto& pixels = std::get<std::vector<uint8_t>>(parsed.images);
      MILLRACE_CHECK(static_cast<int64_t>(pixels.size()) == parsed.size() * parsed.shape.elements(), "{} pixels for {} images",
                     pixels.size(), parsed.size());
      MILLRACE_CHECK(std::all_of(parsed.labels.begin(), parsed.labels.end(), [&](int32_t l) { return 0 <= l && l < parsed.classes; }),
                     "a label outside 0 to {}", parsed.classes - 1);
    } catch (const Error&) {
    }
  }
  return 0;
}
