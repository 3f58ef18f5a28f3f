#include <cstddef>
#include <cstdint>

#include "core/documents/job.h"
#include "tests/fuzz/documents/accepted.h"

namespace {

// A job that could be read may still contradict itself, and says so in one way.
void try_validation(std::string_view text) {
  millrace::Job job;
  try {
    job = millrace::parse_job(text, "fuzz");
  } catch (const millrace::Error&) {
    return;
  }
  try {
    validate(job);
  } catch (const millrace::Error& error) {
    MILLRACE_CHECK(error.code() == millrace::ErrorCode::kUsage, "a contradiction cannot be {}: {}", name_of(error.code()), error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_validation(text);
  return millrace::fuzz::try_document(text, millrace::parse_job);
}
