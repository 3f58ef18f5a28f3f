// Any text, once it carries its right digest (which no fuzzer would guess), either fails with an Error or is a manifest
// that survives being written and read again.
#include "core/train/checkpoint_manifest.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kOpening = "{\n  \"digest\": \"";
  constexpr size_t kDigits = 32;
  if (text.starts_with(kOpening) && text.size() >= kOpening.size() + kDigits) {
    text.replace(kOpening.size(), kDigits, kDigits, '0');
    text.replace(kOpening.size(), kDigits, millrace::digest_of(text));
  }
  millrace::CheckpointManifest manifest;
  try {
    manifest = millrace::parse_manifest(text, "fuzz");
  } catch (const millrace::Error&) {
    return 0;
  }
  if (millrace::parse_manifest(millrace::text_of(manifest), "written") != manifest) std::abort();
  return 0;
}
