// One rank of a ring: its devices, the slices they store for others, and what passes through; a loop that always does the next
// thing that can be done.
//
//   Rank rank(context, flows, open_device, options);
//   rank.initialize(seed);  or  rank.restore(content);
//   rank.run(conductor);                                   // rank 0 has one, the others nullptr
//
// Of its devices that can act the one whose turn it is acts next (core/plan/turn.h); what a device computes depends on its list of actions
// alone. Every wait has the transport's deadline. An error is told to the other ranks by whoever catches it (Transport::abort). Borrows
// everything in the context; owns devices and segments. One thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "node/ring/conductor.h"
#include "node/ring/device_worker.h"
#include "node/ring/note_board.h"
#include "node/ring/ring_flows.h"
#include "node/ring/save_collector.h"
#include "node/ring/slice_server.h"
#include "node/ring/update_queue.h"

namespace millrace {

// Opens what stands for device `index` of the plan.
using OpenDevice = std::function<std::unique_ptr<Device>(int64_t index)>;

// Set from anywhere, by signal handlers for example; null: nobody asks.
struct RankSignals {
  const std::atomic<bool>* stop = nullptr;  // end soon, with a checkpoint
  std::atomic<bool>* checkpoint = nullptr;  // make one soon; taken back when seen
  // How often every rank was asked for one. They hear of it at different updates, so that a flag would make one checkpoint before and
  // another behind an update that comes between; by the number they know that it is the same request.
  const std::atomic<int64_t>* shared_checkpoints = nullptr;
  std::atomic<bool>* describe = nullptr;  // say what you wait for; likewise
  std::atomic<bool>* any = nullptr;       // one of them: wakes a wait; taken back
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

  RankMemory memory() const;
  // Rank 0: hands what has been saved to the conductor; run() does so by itself.
  void collect();
  // What each device would do next and what the rank waits for.
  std::string status() const;
  // Learning rate 0 and no evaluation of it: for rehearsals, whose weights are thrown away.
  void rehearse() { updates_->rehearse(); }

 private:
  // What the ranks found when a loss was not finite.
  struct Diagnosis {
    int64_t device = INT64_MAX;  // the first in the ring's order that has such a layer
    std::string layer;
    int64_t answers = 0;
    void take(int64_t of_device, const std::string& name);
  };

  void mini_batch_scored(int64_t mini_batch, const Score& score) override;
  void evaluation_scored(int64_t mini_batch, const Score& score) override;
  [[noreturn]] void loss_not_finite(int64_t s) override;
  void loaded(int64_t s, std::span<const int64_t> samples) override;
  void saved(int64_t mini_batch, int64_t device, std::vector<std::byte> share) override;

  void open_devices(const OpenDevice& open_device);
  void serve_slices(const std::vector<HomeRoute>& routes);
  void receive_note(const Note& note, int64_t from);
  void watch_signals();
  void take_checkpoint_request(int64_t shared);
  bool lead_training();
  void enter_decision(int64_t mini_batch, const Decision& decision);
  bool pass_messages();
  bool run_action();
  void report_done();
  bool is_idle();
  void wait();
  std::pair<int64_t, std::string> first_non_finite(int64_t s);

  RingContext context_;
  RankSignals signals_;
  DecisionBook decisions_;
  NoteBoard notes_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<SliceServer>> servers_;
  std::vector<Relay> relays_;
  std::optional<SaveCollector> saves_;
  std::optional<UpdateQueue> updates_;

  Conductor* conductor_ = nullptr;
  int64_t led_updates_ = 0;  // that the conductor knows of
  int64_t done_ranks_ = 0;   // rank 0: those that have nothing left to do
  bool reported_done_ = false;
  bool finished_ = false;
  bool sent_stop_ = false;
  int64_t sent_checkpoints_ = 0;    // of signals_.shared_checkpoints
  int64_t shared_checkpoints_ = 0;  // rank 0: the highest that a rank has sent
  bool conductor_busy_ = false;
  Diagnosis diagnosis_;
  std::vector<Interest> missing_;
};

}  // namespace millrace
