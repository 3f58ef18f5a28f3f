// What a launch starts, word by word: mpirun with its options where the ring takes several ranks, then the training.
//
//   start_process(training_command(request, cluster, place(wishes, present), {.cores = 16, .resume = true}), options);
//
// Where devices of a cluster document are missing, those that are there are written into the run's folder, as present.textproto.
// Fails with kUnavailable where several ranks have no mpirun. Internal to deploy/launch.
#pragma once

#include <string>
#include <vector>

#include "deploy/launch/launcher.h"
#include "deploy/launch/placement.h"

namespace millrace {

// Fewer devices than these are not trained on.
int64_t least_devices(const LaunchRequest& request, const Cluster& whole);
// Fewer than the whole cluster's are enough.
bool is_elastic(const LaunchRequest& request, const Cluster& whole);

struct CommandOptions {
  int64_t cores = 1;    // of this machine
  bool resume = false;  // from the newest checkpoint
};
std::vector<std::string> training_command(const LaunchRequest& request, const Cluster& whole, const RankPlacement& now,
                                          const CommandOptions& options);

// The words of a training that goes on in `out`: what only begins one is left out.
std::vector<std::string> resuming_words(const std::vector<std::string>& words, const std::string& out);
// With the value of `flag` replaced, or added.
std::vector<std::string> with_value(std::vector<std::string> words, const std::string& flag, const std::string& value);

}  // namespace millrace
