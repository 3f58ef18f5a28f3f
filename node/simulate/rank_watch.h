// Internal to node/simulate: where a rank's time goes while it simulates its block.
//
//   RankWatch watch(first_device);
//   watch.pause();  transport.wait(...);  watch.resume();
//   const SimulatedRank work = watch.stop(engine);
//
// MEASURED. For the thread that made it.
#pragma once

#include "node/simulate/engine.h"
#include "node/simulate/simulate.h"

namespace millrace::simulation {

class RankWatch {
 public:
  explicit RankWatch(int64_t first_device);

  void pause();
  void resume();
  SimulatedRank stop(const Engine& engine);

 private:
  SimulatedRank work_;
  double wall_ = 0, processor_ = 0, paused_ = 0;
};

}  // namespace millrace::simulation
