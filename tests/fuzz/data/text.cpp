// Text from arbitrary bytes: either characters that lead back to the same bytes, and samples of ids below the vocabulary, or an
// Error.
#include "core/data/text.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/data/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  try {
    const std::u32string text = parse_text(std::as_bytes(std::span(data, size)), "file");
    std::string again;
    for (const char32_t c : text) again += utf8_of(c);
    MILLRACE_CHECK(again.size() <= size, "{} bytes grew to {}", size, again.size());
    MILLRACE_CHECK(parse_text(std::as_bytes(std::span(again)), "again") == text, "{} characters do not come back", text.size());
    const DataSplit parts = split_text(text, "file", 4);
    for (const Dataset* part : {&parts.train, &parts.test}) {
      std::vector<float> values(4);
      std::vector<int32_t> labels(4);
      for (int64_t sample = 0; sample < part->size(); ++sample) {
        part->sequences->read(sample, values);
        part->sequences->read_labels(sample, labels);
        for (size_t i = 0; i < 4; ++i)
          MILLRACE_CHECK(values[i] >= 0 && values[i] < static_cast<float>(part->vocabulary) && labels[i] >= 0 &&
                             labels[i] < part->classes && (i == 3 || values[i + 1] == static_cast<float>(labels[i])),
                         "sample {} holds {} and {}", sample, values[i], labels[i]);
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
