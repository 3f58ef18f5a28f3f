// One rank of a ring: its devices, the slices they store for others, and what passes through; a loop that always does the next
// thing that can be done.
//
//   Rank rank(context, flows, open_device, options);
//   rank.initialize(seed);  or  rank.restore(content);
//   rank.run(conductor);                                   // rank 0 has one, the others nullptr
//
// Of its devices the lowest that can act acts next; what a device computes depends on its list of actions alone. Every
// wait has the transport's deadline. An error is told to the other ranks by whoever catches it (Transport::abort).
// Borrows everything in the context; owns devices and segments. One thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/ring/conductor.h"
#include "node/ring/device_worker.h"
#include "node/ring/ring_flows.h"
#include "node/ring/save_stream.h"
#include "node/ring/slice_server.h"

namespace millrace {

// Opens what stands for device `index` of the plan.
using OpenDevice = std::function<std::unique_ptr<Device>(int64_t index)>;

// Set from anywhere, by signal handlers for example; null: nobody asks.
struct RankSignals {
  const std::atomic<bool>* stop = nullptr;  // end soon, with a checkpoint
  std::atomic<bool>* checkpoint = nullptr;  // make one soon; taken back when seen
  std::atomic<bool>* describe = nullptr;    // say what you wait for; likewise
  std::atomic<bool>* any = nullptr;         // one of them: wakes a wait; taken back
};

// Adds gradients up over the replicas of a ring: nothing to do for one. A sum is under way at a time; all replicas begin the
// same ones in the same order.
class ReplicaSum {
 public:
  virtual ~ReplicaSum() = default;
  virtual void begin(std::span<float> values, int64_t index) = 0;
  virtual void begin(std::span<double> values, int64_t index) = 0;
  // True when the sum is there.
  virtual bool advance() = 0;
};

struct RankMemory {
  SegmentMemory segments;
  int64_t slices = 0;
  int64_t transport = 0;
  int64_t total() const { return segments.total() + slices + transport; }
};

class Rank final : private RankEvents {
 public:
  // `context.transport` is open with `flows.table`.
  Rank(RingContext context, const RingFlows& flows, const OpenDevice& open_device, const RankSignals& signals, ReplicaSum* replicas);
  ~Rank() override;

  void initialize(uint64_t seed);
  void restore(const CheckpointContent& content);
  void take_weights(const TensorMap& weights);

  // Instead of training: one evaluation of what was restored.
  void evaluate_only();
  // Until the last mini-batch is over everywhere.
  void run(Conductor* conductor);

  const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }
  RankMemory memory() const;
  // Rank 0: hands what has been saved to the conductor; run() does so by itself.
  void collect();
  // What each device would do next and what the rank waits for.
  std::string status() const;
  // Learning rate 0 and no evaluation of it: for rehearsals, whose weights are thrown away.
  void rehearse() { rehearsing_ = true; }

 private:
  enum class Word : uint32_t;
  struct Note;

  void mini_batch_scored(int64_t mini_batch, const Score& score) override;
  void evaluation_scored(int64_t mini_batch, const Score& score) override;
  [[noreturn]] void loss_not_finite(int64_t s) override;
  void loaded(int64_t s, std::span<const int64_t> samples) override;
  void saved(int64_t mini_batch, int64_t device, std::vector<std::byte> share) override;

  void tell(int64_t to, const Note& note);
  void hear();
  void hear(const Note& note, int64_t from);
  void watch_signals();
  bool lead();
  void enter(int64_t mini_batch, const Decision& decision);
  bool serve();
  bool settle();
  bool settle(size_t number);
  bool act();
  void part();
  bool rests();
  void wait();
  UpdateArguments arguments_for(int64_t mini_batch) const;
  void take_norm(int64_t mini_batch, int64_t number, double squared);
  std::string first_non_finite(int64_t s);

  RingContext context_;
  RankSignals signals_;
  ReplicaSum* replicas_;
  DecisionBook decisions_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<SliceServer>> servers_;
  std::vector<Relay> relays_;
  std::vector<SaveStream> saves_;  // by device of this rank
  int64_t shares_ = 0;             // that make a checkpoint

  // What is updated here, in the order that all replicas keep.
  struct Settling {
    Updatable* updatable = nullptr;
    int64_t number = 0;   // among all of the ring: orders the norm's sum
    int64_t summed = -1;  // mini-batch whose gradients are added up over the replicas
    int64_t normed = -1;  // mini-batch whose norm was told
  };
  std::vector<Settling> settling_;
  size_t summing_ = 0;  // replicas: whose turn it is
  bool sum_under_way_ = false;
  std::vector<float> narrow_;
  std::vector<double> wide_;
  std::map<int64_t, double> scales_;                    // by mini-batch: from clipping by the global norm
  std::map<int64_t, std::map<int64_t, double>> norms_;  // rank 0: by mini-batch and number

  Conductor* conductor_ = nullptr;
  struct Collected {
    std::unique_ptr<SaveAssembler> assembler;
    int64_t shares = 0;
  };
  std::map<int64_t, Collected> collected_;  // rank 0
  int64_t told_updates_ = 0;
  int64_t parted_ = 0;  // rank 0: ranks that have nothing left to do
  bool told_parting_ = false;
  bool finished_ = false;
  bool told_stop_ = false;
  bool rehearsing_ = false;
  bool conductor_busy_ = false;
  std::optional<std::string> diagnosis_;
  int64_t diagnoses_ = 0;
  std::vector<Interest> missing_;
};

}  // namespace millrace
