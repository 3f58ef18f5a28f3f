// Metrics as TensorBoard reads them: an event file of scalars.
//
//   TensorBoardFile board("runs/digits/tensorboard");
//   options.sinks.push_back(&board);                       // then: tensorboard --logdir runs
//
// Tags: "train/loss", "train/accuracy", "train/learning_rate", "train/images_per_second", "test/loss", ... Every number of a
// record but its step becomes one. A new file for each run, resumed or not, as TensorBoard expects; the folder is made with
// the first record. Each record reaches the operating system before write() returns.
// The format is TensorFlow's: length, masked CRC32C, an Event message, masked CRC32C; written by hand, for it is small.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

#include "core/train/metrics.h"

namespace millrace {

class TensorBoardFile : public MetricsSink {
 public:
  explicit TensorBoardFile(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~TensorBoardFile() override;
  TensorBoardFile(const TensorBoardFile&) = delete;
  TensorBoardFile& operator=(const TensorBoardFile&) = delete;

  void write(const MetricsRecord& record) override;
  const std::filesystem::path& path() const { return path_; }

 private:
  void open();
  void put(const std::string& event);

  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace millrace
