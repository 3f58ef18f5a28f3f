// The dynamic program behind stage_partition.h. Internal to partitioner/profile.
//
//   StageSearch search(cuts, task);
//   if (const auto answer = search.fastest()) for (const StageCut& stage : answer->stages) ...
//
// best[w][c]: the best way to put everything behind cut c on the last w devices used. Walked from the last stage to the first,
// because what a stage holds in memory depends on how many devices follow it. Three passes: the fastest, of these the least
// full, of these the least traffic; a pass keeps to what the ones before it found.
// Borrows cuts and task.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/index.h"
#include "partitioner/profile/cut_space.h"
#include "partitioner/profile/stage_partition.h"

namespace millrace {

struct StageCut {
  int64_t begin = 0;  // cuts
  int64_t end = 0;
  int64_t replicas = 1;
  int64_t device = -1;  // -1: the last `remaining` devices are those that are used
};

struct StageAnswer {
  std::vector<StageCut> stages;
  double seconds = 0;  // of the slowest stage
  double memory_bytes = 0;
  int64_t devices = 0;  // used
};

class StageSearch {
 public:
  // `picks_devices`: some of the devices may be passed over, not the last ones alone.
  StageSearch(const CutSpace& cuts, const StageTask& task, bool picks_devices = false);

  // Nothing when no way fits. `at_most`: nothing slower need be found.
  std::optional<StageAnswer> fastest(double at_most = std::numeric_limits<double>::infinity());
  // The way over as many devices as the task allows whose fullest one is least full, whatever its time and the task's limit.
  // Cuts must be in the order of memory_order().
  std::optional<StageAnswer> least_full();
  // The smallest number of devices, up to `most`, on which everything fits; 0: none. Cuts as for least_full().
  int64_t smallest_count(int64_t most);

  // A stage on the last `remaining` of `used` devices, of which it takes `replicas`.
  double stage_seconds(const StageCut& stage, int64_t remaining, int64_t used) const;
  double stage_memory(const StageCut& stage, int64_t remaining) const;

 private:
  enum class Aim { kSeconds, kMemory, kTraffic, kMemoryAlone };
  struct Limits {
    double seconds = std::numeric_limits<double>::infinity();
    double memory = std::numeric_limits<double>::infinity();
  };
  struct Choice {
    int32_t end = -1;
    int32_t replicas = 0;
  };
  // Tables by devices remaining, then by cut.
  struct Tables {
    std::vector<std::vector<double>> best;
    std::vector<std::vector<Choice>> choices;
  };
  struct Found {
    double value = std::numeric_limits<double>::infinity();
    int64_t used = 0;
    int64_t table = 0;  // the number of devices that its table numbers them by
  };

  void start(Tables& tables) const;
  void add_row(Tables& tables, Aim aim, const Limits& limits, int64_t used) const;
  Found search(Aim aim, const Limits& limits, Tables* keep) const;
  StageAnswer read(const Tables& tables, const Found& found) const;
  // The same where some of the devices may be passed over: `keep` then has the choices of (devices left to use, the next of all).
  Found search_picking(Aim aim, const Limits& limits, Tables* keep) const;
  StageAnswer read_picked(const Tables& tables, const Found& found) const;
  size_t picked(int64_t remaining, int64_t next) const { return to_size(remaining * (task_.devices + 1) + next); }
  double slack() const;

  const CutSpace& cuts_;
  const StageTask& task_;
  bool equal_devices_ = true;  // and links
  bool picks_devices_ = false;
  int64_t most_replicas_ = 1;
  std::vector<double> seconds_per_byte_;  // per link
  std::vector<double> memory_key_;        // never more than what any stage's memory grows by
};

// The amount by which cuts must be ordered for the searches over memory alone.
std::vector<double> memory_order(const CutSpace& cuts);

}  // namespace millrace
