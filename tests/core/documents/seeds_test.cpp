// The fuzzers' seeds are good documents: a fuzz run that starts from refused ones would never get past the gate.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/base/files.h"
#include "core/documents/catalogue.h"
#include "core/documents/cluster.h"
#include "core/documents/job.h"
#include "core/documents/model.h"
#include "core/documents/plan.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

template <typename Document>
void are_accepted(const std::string& kind, Document (*parse)(std::string_view, std::string_view)) {
  int seeds = 0;
  for (const auto& seed : std::filesystem::directory_iterator(MILLRACE_SOURCE_DIR "/tests/fuzz/documents/corpus/" + kind)) {
    ++seeds;
    const std::string text = read_text(seed.path());
    EXPECT_NO_THROW(parse(text, seed.path().string())) << text;
  }
  EXPECT_GT(seeds, 0);
}

// Which of a cluster's two text forms a seed has, its name says.
Cluster parse_either(std::string_view text, std::string_view origin) {
  return origin.ends_with("/shorthand") ? parse_cluster_shorthand(text) : parse_cluster(text, origin);
}

TEST(FuzzSeeds, AreGoodDocuments) {
  are_accepted("model", parse_model);
  are_accepted("cluster", parse_either);
  are_accepted("plan", parse_plan);
  are_accepted("job", parse_job);
  are_accepted("catalogue", parse_catalogue);
}

}  // namespace
}  // namespace millrace
