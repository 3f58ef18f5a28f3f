// Lists of transcripts from arbitrary bytes: either names that stay within their folder and letters within the alphabet, or an
// Error.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/data/speech.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  try {
    for (const Transcript& transcript : parse_transcripts({reinterpret_cast<const char*>(data), size}, "file")) {
      MILLRACE_CHECK(!transcript.name.empty() && transcript.name.find("..") == std::string::npos && transcript.name.front() != '/',
                     "a name leads out of the folder: {}", transcript.name);
      if (const auto labels = spell(transcript.words))
        MILLRACE_CHECK(!labels->empty() && std::ranges::all_of(*labels, [](int32_t label) { return 0 < label && label < kSpeechClasses; }),
                       "labels outside the alphabet for {} bytes", transcript.words.size());
    }
  } catch (const Error&) {
  }
  return 0;
}
