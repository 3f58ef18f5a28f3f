#include <cstddef>
#include <cstdint>

#include "core/documents/cluster.h"
#include "tests/fuzz/documents/accepted.h"

namespace {

// The other text form of a cluster.
void try_shorthand(std::string_view text) {
  try {
    const millrace::Cluster cluster = millrace::parse_cluster_shorthand(text);
    MILLRACE_CHECK(millrace::parse_cluster(text_of(cluster), "written") == cluster, "{}", text);
  } catch (const millrace::Error& error) {
    MILLRACE_CHECK(error.code() == millrace::ErrorCode::kUsage, "a shorthand cannot be {}: {}", name_of(error.code()), error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_shorthand(text);
  return millrace::fuzz::try_document(text, millrace::parse_cluster);
}
