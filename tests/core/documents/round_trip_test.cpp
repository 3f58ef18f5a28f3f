// What is written comes back, to the last bit of every number, and is written the same again.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "catalogue.pb.h"
#include "cluster.pb.h"
#include "core/base/files.h"
#include "job.pb.h"
#include "model.pb.h"
#include "plan.pb.h"
#include "tests/core/documents/random_documents.h"

namespace millrace {
namespace {

constexpr int kRounds = 400;

template <typename Document>
void comes_back(Document (*make)(std::mt19937_64&), Document (*parse)(std::string_view, std::string_view)) {
  for (int round = 0; round < kRounds; ++round) {
    std::mt19937_64 random(static_cast<uint64_t>(round));
    const Document document = make(random);
    const std::string text = text_of(document);
    const Document again = parse(text, "random");
    ASSERT_EQ(document, again) << "round " << round << "\n" << text;
    ASSERT_EQ(text, text_of(again)) << "round " << round;
  }
}

TEST(RoundTrip, Models) { comes_back(random_model, parse_model); }
TEST(RoundTrip, Clusters) { comes_back(random_cluster, parse_cluster); }
TEST(RoundTrip, Plans) { comes_back(random_plan, parse_plan); }
TEST(RoundTrip, Jobs) { comes_back(random_job, parse_job); }
TEST(RoundTrip, Catalogues) { comes_back(random_catalogue, parse_catalogue); }

TEST(RoundTrip, ThroughFiles) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "millrace_documents";
  make_folders(folder);
  std::mt19937_64 random(1);
  const Model model = random_model(random);
  const Cluster cluster = random_cluster(random);
  const Plan plan = random_plan(random);
  const Job job = random_job(random);
  save(model, folder / "model.textproto");
  save(cluster, folder / "cluster.textproto");
  save(plan, folder / "plan.textproto");
  save(job, folder / "job.textproto");
  const Catalogue catalogue = random_catalogue(random);
  save(catalogue, folder / "catalogue.textproto");
  EXPECT_EQ(load_model(folder / "model.textproto"), model);
  EXPECT_EQ(load_cluster(folder / "cluster.textproto"), cluster);
  EXPECT_EQ(parse_plan(read_text(folder / "plan.textproto"), "plan"), plan);
  EXPECT_EQ(load_job(folder / "job.textproto"), job);
  EXPECT_EQ(load_catalogue(folder / "catalogue.textproto"), catalogue);
  std::filesystem::remove_all(folder);
}

// A field of a .proto that no document of ours ever fills is a field that conversion forgot, or that nobody needs.
using Seen = std::map<std::string, bool>;

void expect_fields_of(const google::protobuf::Descriptor& type, Seen& seen) {
  for (int i = 0; i < type.field_count(); ++i) {
    const auto& field = *type.field(i);
    if (!seen.emplace(field.full_name(), false).second) continue;
    if (field.message_type() != nullptr) expect_fields_of(*field.message_type(), seen);
  }
}

void note_fields_of(const google::protobuf::Message& message, Seen& seen) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  const auto& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    seen.at(field->full_name()) = true;
    if (field->message_type() == nullptr) continue;
    if (!field->is_repeated()) {
      note_fields_of(reflection.GetMessage(message, field), seen);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) note_fields_of(reflection.GetRepeatedMessage(message, field, i), seen);
  }
}

template <typename Message>
void note_text(const std::string& text, Seen& seen) {
  Message message;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  note_fields_of(message, seen);
}

TEST(RoundTrip, CoversEveryFieldOfTheProtos) {
  Seen seen;
  expect_fields_of(*documents::Plan::descriptor(), seen);
  expect_fields_of(*documents::Job::descriptor(), seen);
  expect_fields_of(*documents::Catalogue::descriptor(), seen);
  for (int round = 0; round < kRounds; ++round) {
    std::mt19937_64 random(static_cast<uint64_t>(round));
    note_text<documents::Plan>(text_of(random_plan(random)), seen);
    note_text<documents::Job>(text_of(random_job(random)), seen);
    note_text<documents::Catalogue>(text_of(random_catalogue(random)), seen);
  }
  // Only people write this one; core/documents puts all links instead (cluster_test.cpp reads it).
  seen.erase("millrace.documents.LinkEntry.at");
  // Refused until inference is carried out (PlanDocument.ErrorsNameFieldAndValue).
  seen.erase("millrace.documents.Plan.purpose");
  for (const auto& [field, filled] : seen) EXPECT_TRUE(filled) << field;
}

}  // namespace
}  // namespace millrace
