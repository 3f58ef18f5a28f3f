// The same rank of every replica: adds gradients up over the rings, and lets the first ring's rank 0 decide for all.
//
//   ReplicaColumn column(transport);                       // over the ranks of the column; opened by it
//   Rank rank(context, flows, open_device, signals, &column);
//
// Sums are in the order of the replicas, element by element, so they are the same in every repetition. Borrows the
// transport, which carries nothing else.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "node/ring/conductor.h"
#include "node/ring/update_queue.h"
#include "transport/streams/column_sum.h"

namespace millrace {

class ReplicaColumn final : public ReplicaSum {
 public:
  explicit ReplicaColumn(Transport& transport);

  void begin(HostNumbers numbers, int64_t index) override {
    numbers.visit([&](auto values) { sum_->begin(values, index); });
  }
  bool advance() override;

  int64_t replica() const { return transport_.rank(); }
  int64_t replicas() const { return transport_.ranks(); }
  Transport& transport() { return transport_; }

  // From the first replica to the others.
  void announce(int64_t mini_batch, const Decision& decision);
  std::optional<Decision> heard(int64_t mini_batch);

 private:
  Transport& transport_;
  std::unique_ptr<ColumnSum> sum_;
  std::map<int64_t, Decision> decisions_;
  Instant idle_since_{};
  bool idle_ = false;
};

// Rank 0 of a replica that is not the first: does as the first one decides.
class Follower final : public Conductor {
 public:
  explicit Follower(ReplicaColumn& column) : column_(column) {}

  std::optional<Decision> decide(int64_t mini_batch) override;
  void updated(int64_t) override {}
  void scored(int64_t, const Score&) override {}
  void evaluated(int64_t, const Score&) override {}
  void gradient_norm(int64_t, double) override {}
  void saved(int64_t, SaveAssembler&) override {}
  bool step() override { return true; }  // a decision may come at any time
  bool finished() override { return true; }
  void stop_requested() override {}
  void checkpoint_requested() override {}

 private:
  ReplicaColumn& column_;
};

}  // namespace millrace
