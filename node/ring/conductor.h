// Who leads a training, on rank 0: decides about mini-batches, and hears what became of them. node/ring/training_lead.h is
// the one that people use; tests have simpler ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "node/ring/ring_context.h"
#include "node/ring/save_records.h"

namespace millrace {

class Conductor {
 public:
  virtual ~Conductor() = default;
  // Before device 0 begins this mini-batch. In order; the last one is never followed by another. Nothing: not yet.
  virtual std::optional<Decision> decide(int64_t mini_batch) = 0;
  // Device 0 has made this update, and so has every other: theirs come first.
  virtual void updated(int64_t mini_batch) = 0;
  virtual void scored(int64_t mini_batch, const Score& score) = 0;
  virtual void evaluated(int64_t mini_batch, const Score& score) = 0;
  virtual void gradient_norm(int64_t mini_batch, double norm) = 0;
  // The samples of micro-batch s, as device 0 begins with it.
  virtual void loaded(int64_t, std::span<const int64_t>) {}
  // Everything that a checkpoint after this mini-batch is made of.
  virtual void saved(int64_t mini_batch, SaveAssembler& content) = 0;
  // Whatever can be done now, without waiting; true when it may be worth asking again soon.
  virtual bool step() = 0;
  // Nothing is left to do once the last mini-batch is over.
  virtual bool finished() = 0;
  // Some rank was asked to stop, or to make a checkpoint.
  virtual void stop_requested() = 0;
  virtual void checkpoint_requested() = 0;
};

}  // namespace millrace
