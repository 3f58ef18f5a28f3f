// CIFAR records from arbitrary bytes: either all of them are appended, or an Error leaves the data set as it was.
// An input is one byte (even: CIFAR-10, odd: CIFAR-100) and the file.
#include "core/data/cifar.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "core/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  if (size < 1) return 0;
  const CifarKind kind = data[0] % 2 == 0 ? CifarKind::kCifar10 : CifarKind::kCifar100;
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size)).subspan(1);
  Dataset parsed;
  for (int round = 0; round < 2; ++round) {
    const int64_t before = parsed.size();
    try {
      append_cifar(kind, file, "file", parsed);
      MILLRACE_CHECK(parsed.size() > before, "no record came out of {} bytes", file.size());
    } catch (const Error&) {
      MILLRACE_CHECK(parsed.size() == before, "{} samples remain of a refused file", parsed.size() - before);
    }
    const auto& pixels = std::get<std::vector<uint8_t>>(parsed.images);
    MILLRACE_CHECK(static_cast<int64_t>(pixels.size()) == parsed.size() * 3072, "{} pixels for {} images", pixels.size(), parsed.size());
    MILLRACE_CHECK(std::all_of(parsed.labels.begin(), parsed.labels.end(), [&](int32_t l) { return 0 <= l && l < parsed.classes; }),
                   "a label outside 0 to {}", parsed.classes - 1);
  }
  return 0;
}
