#include "core/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "core/base/files.h"
#include "tests/core/train/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using testing_support::TemporaryFolder;

MetricsRecord step_record(int64_t step) {
  return {"step", {{"step", step}, {"epoch", 0.5 * static_cast<double>(step)}, {"loss", 1.0 / (1.0 + static_cast<double>(step))}}};
}
MetricsRecord done_record(int64_t step) { return {"done", {{"step", step}, {"reason", "steps"}}}; }

void append(const std::filesystem::path& path, const std::string& text) { std::ofstream(path, std::ios::app | std::ios::binary) << text; }

TEST(Metrics, OneLineOfJsonInTheOrderGiven) {
  EXPECT_EQ(json_line({"step", {{"step", 120}, {"epoch", 1.5}, {"loss", 0.31}, {"learning_rate", 0.05}}}),
            R"({"event":"step","step":120,"epoch":1.5,"loss":0.31,"learning_rate":0.05})");
  EXPECT_EQ(json_line({"checkpoint", {{"step", 3}, {"path", "a \"b\"\n"}}}), R"({"event":"checkpoint","step":3,"path":"a \"b\"\n"})");
}

TEST(Metrics, DoublesComeBackToTheBitAndNonFiniteOnesAsNull) {
  for (const double value : {0.1 + 0.2, 1.0 / 3, 5e-324, std::numeric_limits<double>::max(), -0.0, 1e21, 123456789.125}) {
    const auto parsed = nlohmann::json::parse(json_line({"step", {{"step", 1}, {"epoch", 1}, {"loss", value}}}));
    EXPECT_EQ(parsed["loss"].get<double>(), value);
    EXPECT_EQ(std::signbit(parsed["loss"].get<double>()), std::signbit(value));
  }
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(json_line({"step", {{"step", 1}, {"epoch", 1}, {"loss", value}}}), HasSubstr("\"loss\":null"));
  EXPECT_THAT(json_line({"step", {{"step", std::numeric_limits<int64_t>::max()}, {"epoch", 1}, {"loss", 0.0}}}),
              HasSubstr("\"step\":9223372036854775807"));
}

TEST(MetricsDeathTest, RecordsAgainstTheSchemaAreMistakesOfTheProgram) {
  EXPECT_DEATH(json_line({"stop", {}}), "\"stop\" is not in the schema");
  EXPECT_DEATH(json_line({"step", {{"step", 1}, {"epoch", 1}}}), "lacks \"loss\"");
  EXPECT_DEATH(json_line({"step", {{"step", 1.5}, {"epoch", 1}, {"loss", 1.0}}}), "\"step\" in \"step\" is not in the schema");
  EXPECT_DEATH(json_line({"step", {{"step", 1}, {"epoch", 1}, {"loss", 1.0}, {"los", 1.0}}}), "\"los\" in \"step\" is not in the schema");
  EXPECT_DEATH(json_line({"step", {{"step", 1}, {"epoch", 1}, {"loss", 1.0}, {"loss", 1.0}}}), "given twice");
}

TEST(MetricsFile, EveryLineIsThereAtOnce) {
  const TemporaryFolder run;
  const auto path = run.path() / "metrics.jsonl";
  append(path, "left from before\n");
  MetricsFile file(path);
  std::string expected;
  for (int64_t step = 1; step <= 3; ++step) {
    file.write(step_record(step));
    expected += json_line(step_record(step)) + "\n";
    EXPECT_EQ(read_text(path), expected);
  }
  file.sync();
  MetricsFile moved = std::move(file);
  moved.write(done_record(3));
  EXPECT_EQ(read_text(path), expected + json_line(done_record(3)) + "\n");
}

TEST(MetricsFile, AFolderThatIsNotThereIsNamed) {
  const TemporaryFolder run;
  EXPECT_THROW(MetricsFile(run.path() / "absent" / "metrics.jsonl"), Error);
}

// The file of a run that was resumed at step 3 is the file of the run that never stopped.
TEST(MetricsFile, ResumingDropsWhatTheTrainingWillWriteAnew) {
  const TemporaryFolder run;
  const auto path = run.path() / "metrics.jsonl";
  const auto whole = run.path() / "whole.jsonl";
  MetricsFile uninterrupted(whole);
  for (int64_t step = 1; step <= 6; ++step) uninterrupted.write(step_record(step));
  uninterrupted.write(done_record(6));
  {
    MetricsFile file(path);
    for (int64_t step = 1; step <= 5; ++step) file.write(step_record(step));
  }
  append(path, R"({"event":"step","step":3)");  // cut short by a crash
  MetricsFile file = MetricsFile::resumed(path, 3);
  for (int64_t step = 4; step <= 6; ++step) file.write(step_record(step));
  file.write(done_record(6));
  EXPECT_EQ(read_text(path), read_text(whole));
}

TEST(MetricsFile, ResumingAFinishedRunDropsItsDone) {
  const TemporaryFolder run;
  const auto path = run.path() / "metrics.jsonl";
  {
    MetricsFile file(path);
    file.write(step_record(1));
    file.write(done_record(1));
  }
  MetricsFile file = MetricsFile::resumed(path, 1);
  EXPECT_EQ(read_text(path), json_line(step_record(1)) + "\n");
}

TEST(MetricsFile, TheLastEvaluationOfAFinishedRunIsWrittenOnce) {
  const TemporaryFolder run;
  const auto path = run.path() / "metrics.jsonl";
  const auto evaluation = [](int64_t step) { return MetricsRecord{"evaluation", {{"step", step}, {"epoch", 0.5}, {"loss", 1.25}}}; };
  {
    MetricsFile file(path);
    for (int64_t step = 1; step <= 2; ++step) {
      file.write(step_record(step));
      file.write(evaluation(step));
    }
  }
  const std::string both = read_text(path);
  MetricsFile::resumed(path, 2, /*evaluates_again=*/true).write(evaluation(2));
  EXPECT_EQ(read_text(path), both);
  MetricsFile::resumed(path, 2).write(evaluation(2));  // one that trains on keeps what there is
  EXPECT_EQ(read_text(path), both + json_line(evaluation(2)) + "\n");
}

TEST(MetricsFile, ResumingWithoutAFileStartsOne) {
  const TemporaryFolder run;
  const auto path = run.path() / "metrics.jsonl";
  MetricsFile::resumed(path, 10).write(step_record(11));
  EXPECT_EQ(read_text(path), json_line(step_record(11)) + "\n");
}

TEST(MetricsFile, LinesThatCannotBeReadAreDroppedAloud) {
  const TemporaryFolder run;
  const auto path = run.path() / "metrics.jsonl";
  append(path, "garbage\n[1]\n{\"event\":\"step\"}\n" + json_line(step_record(1)) + "\n");
  ::testing::internal::CaptureStderr();
  MetricsFile file = MetricsFile::resumed(path, 1);
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const char* line : {"line 1", "line 2", "line 3"}) EXPECT_THAT(said, HasSubstr(line));
  EXPECT_EQ(read_text(path), json_line(step_record(1)) + "\n");
}

TEST(MetricsStream, WritesTheSameLines) {
  const TemporaryFolder run;
  const auto path = run.path() / "out";
  std::FILE* stream = std::fopen(path.c_str(), "w");
  ASSERT_NE(stream, nullptr);
  MetricsStream sink(stream);
  sink.write(step_record(1));
  EXPECT_EQ(read_text(path), json_line(step_record(1)) + "\n");  // before the stream is closed
  std::fclose(stream);
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  EXPECT_THROW(MetricsStream(full).write(step_record(1)), Error);
  std::fclose(full);
}

}  // namespace
}  // namespace millrace
