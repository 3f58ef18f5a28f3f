// What a ring makes of a data set, without training: the V actions of the trainer, once over all of it.
//
//   RingEvaluator evaluator(task, transport, agreement, open_device);
//   const Score score = evaluator.run(weights, [&](SegmentExecutor& segment, const Batch& loaded) { sum.add(segment, loaded); });
//
// `task.data.test` is what is asked about, task.plan the ring; every rank calls with the same. The visitor is called where samples
// are scored, on rank_of_scores(); the score comes to every rank. What is computed is a fact of the plan: the same bits on any
// number of ranks. Borrows task, transport and agreement; the caller closes the agreement.
#pragma once

#include <memory>

#include "core/train/checkpoint.h"
#include "node/ring/rank.h"
#include "transport/streams/agreement.h"

namespace millrace {

class RingEvaluator {
 public:
  RingEvaluator(const TrainingTask& task, Transport& transport, Agreement& agreement, OpenDevice open_device);
  ~RingEvaluator();

  // Fails with kMismatch, naming the tensor, when the weights are not those of the plan's model.
  Score run(const TensorMap& weights, const EvaluationVisitor& visit);
  int64_t rank_of_scores() const;

 private:
  const TrainingTask& task_;
  Transport& transport_;
  Agreement& agreement_;
  OpenDevice open_device_;
  Plan plan_;  // as it is computed here
  RingFlows flows_;
  std::unique_ptr<Rank> rank_;
};

}  // namespace millrace
