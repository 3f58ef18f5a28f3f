// What must hold for every text that a parser accepts: it is written so that it comes back, and stays as it is then.
// Only millrace::Error may leave a parser; whatever else does is a finding.
//
//   extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
//     return millrace::fuzz::try_document({reinterpret_cast<const char*>(data), size}, millrace::parse_job);
//   }
#pragma once

#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/base/error.h"

namespace millrace::fuzz {

template <typename Document>
int try_document(std::string_view text, Document (*parse)(std::string_view text, std::string_view origin)) {
  Document document;
  try {
    document = parse(text, "fuzz");
  } catch (const Error& error) {
    MILLRACE_CHECK(error.code() == ErrorCode::kMalformed, "a text cannot be {}: {}", name_of(error.code()), error.what());
    return 0;
  }
  const std::string written = text_of(document);
  const Document again = parse(written, "written");  // refusing what we wrote ourselves is a finding too
  MILLRACE_CHECK(again == document, "{}", written);
  MILLRACE_CHECK(text_of(again) == written, "{}", written);
  return 0;
}

}  // namespace millrace::fuzz
