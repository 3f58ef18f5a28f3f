// Zip archives from arbitrary bytes: either entries with names that stay inside and contents as long as they claim, or an Error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/data/npy.h"
#include "core/data/zip_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  constexpr uint64_t kMost = 1 << 20;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const ZipFile zip(bytes, "file");
    for (const ZipEntry& entry : zip.entries()) {
      MILLRACE_CHECK(!entry.name.starts_with('/') && entry.name != "..", "a name leads out: {}", entry.name);
      try {
        const auto content = zip.read(entry.name, kMost);
        MILLRACE_CHECK(content.size() == entry.bytes && content.size() <= kMost, "{} bytes of {}", content.size(), entry.bytes);
      } catch (const Error&) {
      }
    }
    parse_npz(bytes, "file");
  } catch (const Error&) {
  }
  return 0;
}
