// `millrace predict --files`: what a checkpoint says about pictures and arrays that belong to no data set.
//
//   return predict_files({.checkpoint = "runs/flowers", .files = {"cat.jpg", "holiday/", "more.npy"}, .top = 3});
//
// Folders are searched for pictures, all the way down. Pictures are brought to the network as those that it was trained on, or
// as much of their middle as fills its input; arrays are .npy files of samples (core/data/arrays.h). Damaged files are named and counted,
// an error only where that was asked for. Memory: kMostTogether pictures at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct FilePredictionFlags {
  std::string checkpoint, cluster = "cpu";
  std::vector<std::string> files;
  int64_t top = 1;
  int64_t micro_batch = 32;
  int threads = 1;
  bool damaged_is_fatal = false;
  bool last_weights = false;
  bool json = false, csv = false;
};

int predict_files(const FilePredictionFlags& flags);

}  // namespace millrace
