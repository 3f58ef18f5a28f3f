// How far a run has come, by what lies in its folder, while another process writes there.
//
//   const RunState state = state_of_run("runs/a");
//   fmt::print("checkpoint {}, records up to step {}\n", state.checkpoint_step, state.last_step);
//
// Reads names and times alone, but for metrics.jsonl: whether a checkpoint is whole, --resume finds out. Never fails: what is not
// there, or cannot be read, counts as nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

namespace millrace {

struct RunState {
  bool begun = false;                                   // it holds a job: --resume takes it
  int64_t checkpoint_step = 0;                          // of the newest checkpoint; 0: none
  std::chrono::system_clock::time_point checkpoint_at;  // when that was complete
  int64_t last_step = 0;                                // that metrics.jsonl tells of
  std::chrono::system_clock::time_point changed_at;     // the last sign of life
};

RunState state_of_run(const std::filesystem::path& run);

// True when nobody trains in the folder: ranks may outlive an mpirun that was killed by a second.
bool folder_is_free(const std::filesystem::path& run);

}  // namespace millrace
