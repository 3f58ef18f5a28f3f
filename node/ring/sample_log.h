// Which samples each update was made of: samples.jsonl in a run's folder, a line for every update.
//
//   SampleLog log("runs/a/samples.jsonl", /*step=*/40);            // goes on behind update 40
//   log.write(41, samples);                                        // {"step":41,"samples":[17,3,...]}
//
// In the order in which the first device took them. Lines of later updates, and one cut short by a crash, are dropped when the log is
// opened: the training makes them again. So what it holds at the end are the updates that count, each once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>

namespace millrace {

inline constexpr const char* kSampleLogName = "samples.jsonl";

class SampleLog {
 public:
  SampleLog(const std::filesystem::path& path, int64_t step);
  // Fails with kIo when the line could not be written.
  void write(int64_t step, std::span<const int64_t> samples);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace millrace
