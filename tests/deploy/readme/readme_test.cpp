// README.md, the guide and their pictures say what the code does: the documents in it parse, the action lists behind the timeline are
// those of core/plan/schedule.h, and the picture of the ring shows every flow of the plan it claims to show.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "core/base/exit_status.h"
#include "core/base/files.h"
#include "core/documents/job.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/plan/schedule.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

std::string source(const std::string& path) { return read_text(std::string(MILLRACE_SOURCE_DIR "/") + path); }

// The contents of the page's fenced blocks that open with ```textproto.
std::vector<std::string> documents_in(const std::string& page) {
  const std::string text = source(page);
  const std::string open = "```textproto\n";
  std::vector<std::string> found;
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at + 1)) {
    const size_t begin = at + open.size();
    found.push_back(text.substr(begin, text.find("```", begin) - begin));
  }
  return found;
}

// 12345678 -> "12,345,678"
std::string grouped(int64_t number) {
  std::string digits = fmt::format("{}", number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

TEST(Readme, ModelAndJobAreValid) {
  const std::vector<std::string> models = documents_in("deploy/guide/models-and-data.md");
  const std::vector<std::string> jobs = documents_in("deploy/guide/training.md");
  ASSERT_EQ(models.size(), 1U);
  ASSERT_EQ(jobs.size(), 1U);
  const Graph graph(parse_model(models[0], "models-and-data.md"));
  EXPECT_EQ(graph.nodes().back().output, (Shape{10, 1, 1}));
  const Job job = parse_job(jobs[0], "training.md");
  EXPECT_EQ(job.model, graph.model().name + ".textproto");
  EXPECT_EQ(job.mini_batch % job.micro_batch, 0);
}

TEST(Readme, ShowsEveryExitStatus) {
  std::string table = "| exit status | means |\n|---|---|\n";
  for (const ExitMeaning& row : kExitMeanings) table += fmt::format("| {} | {} |\n", row.status, row.meaning);
  EXPECT_THAT(source("deploy/guide/scripting.md"), testing::HasSubstr(table + "\n"));
}

TEST(Readme, TimelineIsDrawnFromTheRealLists) {
  std::string expected;
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble, Alignment::kFpdeep}) {
    const std::vector<int64_t> windows = default_windows(4, alignment, 4);
    for (size_t device = 0; device < windows.size(); ++device) {
      const ScheduleSpec spec{
          .alignment = alignment, .micro_batches = 4, .window = windows[device], .ring_window = windows[0], .mini_batches = 4};
      expected += fmt::format("{} {} {}\n", name_of(alignment), device, text_of(actions_of(spec)));
    }
  }
  EXPECT_EQ(source("deploy/pictures/schedules.txt"), expected);
}

TEST(Readme, RingShowsTheFlowsOfItsPlan) {
  const std::string picture = source("deploy/pictures/ring.svg");
  const Graph graph(zoo_model("fashion-cnn"));
  PlanRequest request{.cluster = uniform_cluster("cpu", 4), .alignment = Alignment::kFpdeep, .mini_batch = 32, .micro_batch = 8};
  request.remote_homes = {{.layer = "fc1", .tensor = "weight", .offset = 0, .count = 36864, .home = 2, .user = 3}};
  const std::vector<Cut> cuts = {{1, 7, 0}, {2, 0, 0}, {2, 17, 0}};
  const std::vector<Split> splits(5, Split::kInputChannels);
  const Plan plan = assemble_plan(graph, request, shards_from_cuts(graph, cuts, splits));

  size_t arrows = 0;
  for (const Flow& flow : plan.flows) {
    const bool per_pass = flow.elements_per_pass > 0;
    const std::string channels = per_pass ? "" : fmt::format(" {}", text_of(flow.channels));
    const std::string label = fmt::format("{} {}{}: {}", name_of(flow.stream), flow.tensor, channels,
                                          grouped(per_pass ? flow.elements_per_pass : flow.elements_per_sample));
    EXPECT_THAT(picture, testing::HasSubstr(label));
    ++arrows;
  }
  size_t labels = 0;
  for (const std::string_view stream : {"activation ", "partial ", "error ", "parameter ", "gradient "})
    for (size_t at = picture.find(fmt::format(">{}", stream)); at != std::string::npos;
         at = picture.find(fmt::format(">{}", stream), at + 1))
      ++labels;
  EXPECT_EQ(labels, arrows);
}

}  // namespace
}  // namespace millrace
