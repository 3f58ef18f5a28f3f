// The words of `millrace train` read without training: for who starts it as a process of its own.
//
//   const TrainWords asked = read_train_words({"train", "--model", "digits-cnn", "--out", "runs/a"});
//   fmt::print("{}\n", asked.job.cluster);
//
// Refuses what train itself would refuse about its words, in the same words (kUsage).
#pragma once

#include <string>
#include <vector>

#include "core/documents/job.h"

namespace millrace {

struct TrainWords {
  Job job;
  std::string resume;
  bool json = false;
  bool dry_run = false;
  bool measure = false;
  std::string help;  // asked for instead
};

TrainWords read_train_words(const std::vector<std::string>& words);

}  // namespace millrace
