// Pieces of a study: done once, kept, shared out, refused where they belong to another question.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/error.h"
#include "partitioner/study/study_record.h"
#include "partitioner/study/study_work.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class StudyWorks : public testing::Test {
 protected:
  StudyWorks() : folder_(std::filesystem::temp_directory_path() / fmt::format("study_work_{}", ::getpid())) {
    std::filesystem::remove_all(folder_);
  }
  ~StudyWorks() override { std::filesystem::remove_all(folder_); }

  std::string refusal(const StudyQuestion& question) const {
    try {
      const StudyJournal journal(folder_, question, 0);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(StudyWorks, DoEachPieceOnceAndNeverAgain) {
  const std::vector<std::string> keys{"a", "b", "c", "d"};
  std::atomic<int> turns = 0;
  const StudyWork::Turn turn = [&](size_t i) -> std::optional<std::string> {
    ++turns;
    if (keys[i] == "c") return std::nullopt;
    return fmt::format("{}", 10 * i);
  };
  {
    StudyJournal journal(folder_, {{"q", "1"}}, 0);
    StudyWork work({}, &journal, 3);
    work.run(keys, turn);
    EXPECT_EQ(turns, 4);
    EXPECT_EQ(*work.find("d"), "30");
    EXPECT_EQ(work.find("c"), nullptr);
  }
  StudyJournal journal(folder_, {{"q", "1"}}, 0);
  StudyWork work({}, &journal, 1);
  EXPECT_EQ(work.found(), 3u);
  work.run(keys, turn);
  EXPECT_EQ(turns, 5);  // the one left
  EXPECT_EQ(*work.find("b"), "10");
}

TEST_F(StudyWorks, ForgetALineThatWasCutOff) {
  {
    StudyJournal journal(folder_, {{"q", "1"}}, 0);
    journal.add("a", "1");
    journal.add("b", "[2,\"x\"]");
  }
  std::ofstream(folder_ / "points.jsonl", std::ios::app) << "{\"key\": \"c\", \"val";
  {
    StudyJournal journal(folder_, {{"q", "1"}}, 0);
    EXPECT_EQ(journal.found().size(), 2u);
    EXPECT_EQ(journal.found().at("b"), "[2,\"x\"]");
    journal.add("c", "3");
  }
  EXPECT_EQ(StudyJournal(folder_, {{"q", "1"}}, 0).found().at("c"), "3");
}

TEST_F(StudyWorks, RefuseTheFolderOfAnotherQuestion) {
  EXPECT_EQ(refusal({{"--model", "vgg16"}, {"--count", "5"}}), "");
  EXPECT_EQ(refusal({{"--model", "vgg16"}, {"--count", "5"}}), "");
  EXPECT_THAT(refusal({{"--model", "vgg19"}, {"--count", "5"}}),
              HasSubstr("holds a study of another question: --model is \"vgg16\" there and \"vgg19\" here"));
  EXPECT_THAT(refusal({{"--model", "vgg16"}}), HasSubstr("--count is \"5\" there and \"not given\" here"));
  std::ofstream(folder_ / "points.jsonl") << "{}\n";
  EXPECT_THAT(refusal({{"--model", "vgg16"}, {"--count", "5"}}), HasSubstr("points.jsonl:1: not a finished piece"));
  std::ofstream(folder_ / "question.json") << "[";
  EXPECT_THAT(refusal({{"--model", "vgg16"}, {"--count", "5"}}), HasSubstr("question.json: not a JSON object"));
}

TEST_F(StudyWorks, AreSharedOutOverRanks) {
  constexpr int64_t kRanks = 3;
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) keys.push_back(fmt::format("k{}", i));
  std::vector<std::string> said(kRanks);
  std::barrier meeting(kRanks);
  std::vector<int> turns(kRanks, 0);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      StudyTeam team{.rank = rank, .ranks = kRanks, .exchange = {}};
      team.exchange = [&, rank](const std::string& mine) {
        said[static_cast<size_t>(rank)] = mine;
        meeting.arrive_and_wait();
        std::vector<std::string> all = said;
        meeting.arrive_and_wait();
        return all;
      };
      StudyWork work(team, nullptr, 1);
      work.run(keys, [&](size_t i) -> std::optional<std::string> {
        ++turns[static_cast<size_t>(rank)];
        return fmt::format("\"{}\"", i);
      });
      for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(*work.find(keys[i]), fmt::format("\"{}\"", i));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(turns, testing::ElementsAre(4, 3, 3));
}

TEST(StudyRecords, SayThePointAgainToTheLastDigit) {
  StudyPoint point;
  point.devices = 12;
  point.feasible = true;
  point.images_per_second = 1.0 / 3;
  point.link_roof_images_per_second = 2.0 / 7;
  point.in_flight_samples = 4;
  point.bottleneck = {"link", 2};
  point.device_dsp = {0.1, 0.2};
  point.simulated = SimulatedFigures{.images_per_second = 0.3, .idle_fraction = 0.01, .in_flight_samples = 5, .max_link_gbps = 7.7};
  const StudyPoint again = point_of_record(record_of(point));
  EXPECT_EQ(record_of(again), record_of(point));
  EXPECT_EQ(again.images_per_second, 1.0 / 3);
  EXPECT_EQ(again.simulated->max_link_gbps, 7.7);
  EXPECT_EQ(again.bottleneck.kind, "link");
  StudyPoint infeasible;
  infeasible.reason = "lacks \"much\"";
  EXPECT_EQ(record_of(point_of_record(record_of(infeasible))), record_of(infeasible));
  EXPECT_THROW(point_of_record("{\"devices\": 3}"), Error);
  EXPECT_THROW(point_of_record("nonsense"), Error);
}

}  // namespace
}  // namespace millrace
