// A training of a tiny network on one device, in a folder of its own, and what it leaves behind.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/reference/reference_device.h"
#include "node/ring/ring_trainer.h"
#include "tests/core/train/tiny_runs.h"

namespace millrace::testing_support {

class TinyRun {
 public:
  explicit TinyRun(const Model& model = tiny_model()) : job(tiny_job((folder_.path() / "model.textproto").string())) {
    save(model, job.model);
    job.out = (folder_.path() / "run").string();
  }

  TrainingOutcome train(TrainerOptions options = {}) {
    const TrainingTask task = prepare_task(job);
    if (options.log_every == 0) options.log_every = 1;
    return train_alone(
        task, [](int64_t) { return make_reference_device(ElementType::kFloat32); }, options);
  }
  TrainingOutcome resume() { return train({.resume = job.out}); }

  CheckpointContent checkpoint() const { return read_checkpoint(locate_checkpoint(job.out)); }
  TensorMap weights() const { return checkpoint().weights; }

  // The lines of metrics.jsonl of one event, without measurements.
  std::vector<std::string> lines(const std::string& event) const {
    std::vector<std::string> found;
    std::ifstream file(std::filesystem::path(job.out) / "metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      if (nlohmann::json::parse(line).at("event") == event) found.push_back(without_measurements(line));
    return found;
  }
  std::vector<double> values(const std::string& event, const std::string& name) const {
    std::vector<double> found;
    for (const std::string& line : lines(event)) found.push_back(nlohmann::json::parse(line).at(name));
    return found;
  }

 private:
  TemporaryFolder folder_;

 public:
  Job job;
};

}  // namespace millrace::testing_support
