#include "core/documents/job.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "core/base/files.h"
#include "tests/core/documents/expect_error.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

void expect_malformed_job(const std::string& text, const std::string& words) {
  expect_error(ErrorCode::kMalformed, words, [&] { parse_job(text, "job.textproto"); });
}
void expect_contradiction(const std::string& words, const std::function<void(Job&)>& change) {
  Job job;
  change(job);
  expect_error(ErrorCode::kUsage, words, [&] { validate(job); });
}

TEST(JobDocument, ReadsTheExample) {
  const Job job = load_job(MILLRACE_SOURCE_DIR "/tests/core/documents/data/job.textproto");
  EXPECT_EQ(job.model, "vgg16-cifar");
  EXPECT_EQ(job.alignment, Alignment::kOneForwardOneBackward);
  EXPECT_EQ(job.epochs, 60);
  EXPECT_EQ(job.micro_batch, 8);
  EXPECT_EQ(job.optimizer.kind, OptimizerKind::kNesterov);
  EXPECT_EQ(job.optimizer.weight_decay, 5e-4);
  EXPECT_EQ(job.optimizer.beta2, 0.999);
  EXPECT_EQ(job.learning_rate.kind, LearningRateKind::kStep);
  EXPECT_EQ(job.learning_rate.step_epochs, (std::vector<double>{30, 45, 55}));
  EXPECT_EQ(job.clip, ClipKind::kGlobalNorm);
  EXPECT_EQ(job.augmentation, (Augmentation{4, true, 0.25}));
  EXPECT_EQ(job.pins, (std::map<std::string, int64_t>{{"conv1_1", 0}, {"fc8", 1}}));
  EXPECT_EQ(job.keep_checkpoints, 3);
  validate(job);
}

TEST(JobDocument, AnEmptyJobIsTheDefaultOne) {
  EXPECT_EQ(parse_job("", "empty"), Job{});
  EXPECT_EQ(parse_job("optimizer {} learning_rate {} augmentation {}", "nearly empty"), Job{});
  validate(Job{});
}

TEST(JobDocument, IsRecordedInFull) {
  // A run's folder must say what was used even if a default changes one day.
  EXPECT_EQ(
      text_of(Job{}),
      "version: 1\nmodel: \"digits-cnn\"\ndata: \"digits\"\ncluster: \"cpu\"\nalignment: FLUSH\nepochs: 10\nsteps: 0\nmini_batch: 32\n"
      "micro_batch: 0\nseed: 1\n"
      "optimizer { kind: MOMENTUM momentum: 0.9 beta1: 0.9 beta2: 0.999 epsilon: 1e-08 weight_decay: 0 }\n"
      "learning_rate { kind: CONSTANT base: 0.01 warmup_epochs: 0 factor: 0.1 final_rate: 0 power: 1 }\n"
      "clip: NONE\nclip_limit: 1\naugmentation { crop_padding: 0 flip: false crop_area: 0 }\nreplicas: 1\nthreads: 1\ncheckpoint_every: 0\n"
      "keep_checkpoints: 3\nevaluate_every_epochs: 1\ntime_limit_seconds: 0\n");
}

// Training that goes on with a job cut between two fields would take the rest at its defaults.
TEST(JobDocument, OfARunIsWholeOrRefused) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "millrace_whole_jobs";
  make_folders(folder);
  const std::filesystem::path path = folder / "job.textproto";
  Job job;
  job.seed = 5;
  job.early_stop.patience = 2;
  save(job, path);
  EXPECT_EQ(load_whole_job(path), job);
  std::string text = read_text(path);
  text.pop_back();
  write_atomically(path, text);  // only the last line's end is lost
  EXPECT_EQ(load_whole_job(path), job);
  for (size_t end = text.rfind('\n'); end != std::string::npos; end = end == 0 ? std::string::npos : text.rfind('\n', end - 1)) {
    write_atomically(path, std::string_view(text).substr(0, end + 1));
    expect_error(ErrorCode::kMalformed, "job.textproto: is cut short", [&] { load_whole_job(path); });
  }
  write_atomically(path, std::string_view(""));
  expect_error(ErrorCode::kMalformed, "model, data, cluster", [&] { load_whole_job(path); });
  // Of a version that wrote no end, and by hand.
  write_atomically(path, text_of(job));
  EXPECT_EQ(load_whole_job(path), job);
  write_atomically(path, std::string_view("seed: 5\nearly_stop { patience: 2 }\n# end of the job\n"));
  EXPECT_EQ(load_whole_job(path).seed, 5U);
  std::filesystem::remove_all(folder);
}

TEST(JobDocument, CutsAreByLink) {
  const Job job = parse_job("cuts { link: 4 layer: \"conv2\" channel: 17 outputs: 3 } cuts { link: 0 layer: \"fc1\" }", "job");
  EXPECT_EQ(job.cuts, (std::map<int64_t, FixedCut>{{0, {"fc1", 0, 0}}, {4, {"conv2", 17, 3}}}));
  EXPECT_TRUE(
      text_of(job).ends_with("cuts { link: 0 layer: \"fc1\" channel: 0 outputs: 0 }\n"
                             "cuts { link: 4 layer: \"conv2\" channel: 17 outputs: 3 }\n"));
}

TEST(JobDocument, ErrorsNameFieldAndValue) {
  expect_malformed_job("mini_batch: 0", "job.textproto: mini_batch: 0 must be positive");
  expect_malformed_job("micro_batch: -1", "job.textproto: micro_batch: -1 must not be negative");
  expect_malformed_job("epochs: 0", "epochs: 0 must be positive");
  expect_malformed_job("epochs: nan", "epochs: nan must be a finite number");
  expect_malformed_job("seed: -1", "job.textproto:1:7:");
  expect_malformed_job("seed: 18446744073709551616", "job.textproto:1:7:");
  expect_malformed_job("model: \"\"", "model: \"\" must not be empty");
  expect_malformed_job("threads: 0", "threads: 0 must be positive");
  expect_malformed_job("optimizer { momentum: 1 }", "optimizer.momentum: 1 must be below 1");
  expect_malformed_job("optimizer { epsilon: 0 }", "optimizer.epsilon: 0 must be positive");
  expect_malformed_job("optimizer { kind: ADAMX }", "did you mean \"ADAM\"?");
  expect_malformed_job("learning_rate { step_epochs: [1, 3, 3] }", "learning_rate.step_epochs[2]: 3 must be above the 3 before it");
  expect_malformed_job("learning_rate { step_epochs: [1, inf] }", "learning_rate.step_epochs[1]: inf must be a finite number");
  expect_malformed_job("pins { layer: \"a\" }", "pins[0]: device is missing");
  expect_malformed_job("pins { layer: \"a\" device: -1 }", "pins[0].device: -1 must not be negative");
  expect_malformed_job("pins { layer: \"a\" device: 1 } pins { layer: \"a\" device: 1 }", "pins[1].layer: \"a\" is pinned twice");
  expect_malformed_job("cuts { layer: \"a\" }", "cuts[0]: link is missing");
  expect_malformed_job("cuts { link: 0 }", "cuts[0]: layer is missing");
  expect_malformed_job("cuts { link: -1 layer: \"a\" }", "cuts[0].link: -1 must not be negative");
  expect_malformed_job("cuts { link: 65535 layer: \"a\" }", "cuts[0].link: 65535 must be at most 65534");
  expect_malformed_job("cuts { link: 1 layer: \"a\" channel: -2 }", "cuts[0].channel: -2 must not be negative");
  expect_malformed_job("cuts { link: 1 layer: \"a\" outputs: 3000000000 }", "cuts[0].outputs: 3000000000 must be at most 2147483647");
  expect_malformed_job("cuts { link: 1 layer: \"a\" } cuts { link: 1 layer: \"b\" }", "cuts[1].link: 1 is given twice");
  expect_malformed_job("allignment: FLUSH",
                       "job.textproto:1:1: Message type \"Job\" has no field named \"allignment\"; did you mean \"alignment\"?");
  expect_malformed_job("alignment: F1B1", "job.textproto:1:12:");
}

TEST(JobValidation, FindsContradictions) {
  expect_contradiction("mini_batch: 33 must be a multiple of micro_batch, which is 8",
                       [](Job& job) { job.mini_batch = 33, job.micro_batch = 8; });
  expect_contradiction("mini_batch: 4 must be a multiple of micro_batch, which is 8",
                       [](Job& job) { job.mini_batch = 4, job.micro_batch = 8; });
  expect_contradiction("replicas: 0 must be positive", [](Job& job) { job.replicas = 0; });
  expect_contradiction("clip: GLOBAL_NORM", [](Job& job) { job.clip = ClipKind::kGlobalNorm, job.alignment = Alignment::kFpdeep; });
  expect_contradiction("pins: 1 given", [](Job& job) { job.plan = std::string("plan.textproto"), job.pins.emplace("a", 0); });
  expect_contradiction("cuts: 2 given, but plan \"plan.textproto\" already says where links cut", [](Job& job) {
    job.plan = std::string("plan.textproto");
    job.cuts = {{0, {"a", 1, 2}}, {1, {"b", 0, 0}}};
  });
  expect_contradiction("cuts[0].layer: \"\" must not be empty", [](Job& job) { job.cuts[3] = {}; });
  expect_contradiction("checkpoint_every: 10", [](Job& job) { job.checkpoint_every = 10; });
  expect_contradiction("learning_rate.step_epochs: none given", [](Job& job) { job.learning_rate.kind = LearningRateKind::kStep; });
  expect_contradiction("learning_rate.step_epochs: 1 given", [](Job& job) { job.learning_rate.step_epochs = {3}; });
  expect_contradiction("learning_rate.final_rate: 1 must not be above base, which is 0.01",
                       [](Job& job) { job.learning_rate.kind = LearningRateKind::kCosine, job.learning_rate.final_rate = 1; });
  expect_contradiction("learning_rate.warmup_epochs: 11 must not be more than the 10 epochs",
                       [](Job& job) { job.learning_rate.warmup_epochs = 11; });
}

}  // namespace
}  // namespace millrace
