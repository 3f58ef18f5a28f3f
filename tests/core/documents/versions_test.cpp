// Documents of other versions: newer ones are refused, older ones pass every step between theirs and ours.
#include <gtest/gtest.h>

#include <string>

#include "cluster.pb.h"
#include "core/documents/catalogue.h"
#include "core/documents/cluster.h"
#include "core/documents/job.h"
#include "core/documents/model.h"
#include "core/documents/plan.h"
#include "core/documents/proto_text.h"
#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

// A history the real format never had. Version 1 gave bandwidths in megabits; version 2 called the ring's hosts
// after their devices.
text::MigrationSteps invented_history() {
  return {
      [](google::protobuf::Message& message) {
        for (auto& link : *dynamic_cast<documents::Cluster&>(message).mutable_links()) link.set_forward_gbps(link.forward_gbps() / 1000);
      },
      [](google::protobuf::Message& message) {
        for (auto& device : *dynamic_cast<documents::Cluster&>(message).mutable_devices()) device.set_host("host-of-" + device.device());
      },
  };
}

documents::Cluster read_with_history(const std::string& version) {
  documents::Cluster message;
  text::parse_text(version + " devices { device: \"cpu\" } links { forward_gbps: 5000 }", text::Path("old", ErrorCode::kMalformed),
                   invented_history(), message);
  return message;
}

TEST(Versions, OlderDocumentsPassEveryStep) {
  const documents::Cluster from_1 = read_with_history("version: 1");
  EXPECT_EQ(from_1.version(), 3U);
  EXPECT_EQ(from_1.links(0).forward_gbps(), 5);
  EXPECT_EQ(from_1.devices(0).host(), "host-of-cpu");
  const documents::Cluster from_2 = read_with_history("version: 2");
  EXPECT_EQ(from_2.version(), 3U);
  EXPECT_EQ(from_2.links(0).forward_gbps(), 5000);
  EXPECT_EQ(from_2.devices(0).host(), "host-of-cpu");
}

TEST(Versions, CurrentDocumentsAreLeftAlone) {
  for (const char* version : {"version: 3", ""}) {
    const documents::Cluster message = read_with_history(version);
    EXPECT_EQ(message.version(), 3U);
    EXPECT_EQ(message.links(0).forward_gbps(), 5000);
    EXPECT_FALSE(message.devices(0).has_host());
  }
}

TEST(Versions, NewerOnesAreRefused) {
  expect_error(ErrorCode::kMalformed, "old: written by a newer Millrace (version 4, this one reads up to 3)",
               [] { read_with_history("version: 4"); });
  const std::string words = "d: written by a newer Millrace (version 7, this one reads up to 1)";
  expect_error(ErrorCode::kMalformed, words, [] { parse_model("version: 7", "d"); });
  expect_error(ErrorCode::kMalformed, words, [] { parse_cluster("version: 7", "d"); });
  expect_error(ErrorCode::kMalformed, "d: written by a newer Millrace (version 7, this one reads up to 2)",
               [] { parse_plan("version: 7", "d"); });
  expect_error(ErrorCode::kMalformed, words, [] { parse_job("version: 7", "d"); });
  expect_error(ErrorCode::kMalformed, words, [] { parse_catalogue("version: 7", "d"); });
  // Also where the version comes late, and where the newer format has fields that this one does not know.
  expect_error(ErrorCode::kMalformed, words, [] { parse_job("epochs: 3 version: 7", "d"); });
  expect_error(ErrorCode::kMalformed, words, [] { parse_job("# a comment\n version : 7\n frobnicate: 3", "d"); });
  expect_error(ErrorCode::kMalformed, "d: model: written by a newer Millrace (version 9",
               [] { parse_plan("version: 1 model { version: 9 }", "d"); });
  expect_error(ErrorCode::kMalformed, "d: cluster: written by a newer Millrace (version 9",
               [] { parse_plan("cluster { version: 9 }", "d"); });
  expect_error(ErrorCode::kMalformed, "d:1:10:", [] { parse_job("version: 99999999999999999999", "d"); });
}

TEST(Versions, EveryDocumentSaysWhatItIs) {
  EXPECT_TRUE(text_of(Job{}).starts_with("version: 1\n"));
  EXPECT_TRUE(text_of(Catalogue{}).starts_with("version: 1\n"));
  EXPECT_TRUE(text_of(uniform_cluster("cpu", 2)).starts_with("version: 1\n"));
}

}  // namespace
}  // namespace millrace
