// What the tests of executor and trainer share: a network that trains in milliseconds, jobs for it, and what they leave.
//
//   TinyRun run;                                   // a folder of its own, gone afterwards
//   run.job.steps = 7;
//   const TrainingOutcome outcome = run.train();
//   run.weights(), run.lines("step")
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/graph/model_builder.h"
#include "core/reference/reference_device.h"
#include "core/train/checkpoint.h"
#include "core/train/evaluate.h"
#include "core/train/segment_state.h"
#include "tests/core/train/temporary_folder.h"

namespace millrace::testing_support {

// Images of 1x4x4 in three classes. With batch norm and dropout: everything that draws numbers or keeps statistics.
inline Model tiny_model(bool normalised = true) {
  ModelBuilder net("tiny", {1, 4, 4});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  if (normalised) net.layer("norm", BatchNorm{});
  net.relu("relu1");
  net.conv("conv2", 3, {.kernel = 3, .pad = 1});
  net.layer("tanh2", Activation{.kind = ActivationKind::kTanh});
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.flatten("flat");
  if (normalised) net.dropout("drop", 0.3);
  net.dense("fc", 3);
  return net.finish();
}

// 40 training samples, 8 to test on: with mini-batches of 8, five updates make an epoch.
inline Job tiny_job(const std::string& model_path) {
  Job job;
  job.model = model_path;
  job.data = "synthetic:1x4x4:3:40:7";
  job.mini_batch = 8;
  job.micro_batch = 4;
  job.epochs = 2;
  job.seed = 3;
  job.learning_rate.base = 0.05;
  return job;
}

// What only a clock can tell, removed.
inline std::string without_measurements(const std::string& line) {
  nlohmann::ordered_json record = nlohmann::ordered_json::parse(line);
  for (const char* name : {"images_per_second", "seconds", "data_wait_seconds", "peak_memory_bytes"}) record.erase(name);
  return record.dump();
}

inline std::vector<double> values_of(const TensorMap& tensors, const std::string& name) {
  const HostTensor& tensor = tensors.at(name);
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  copy_values(tensor, std::span<double>(values), name);
  return values;
}

}  // namespace millrace::testing_support
