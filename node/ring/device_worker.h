// One device of the ring at work: its schedule, its segment, and what each next action still lacks.
//
//   Worker worker(context, device_index, std::move(device));
//   std::vector<Interest> missing;
//   switch (worker.look(missing)) {
//     case Worker::State::kReady: worker.perform(); break;            // one action
//     case Worker::State::kUpdate: break;                             // due(): whoever updates calls update()
//     case Worker::State::kWaits: transport.wait(missing); break;     // empty: for a decision
//     case Worker::State::kOver: break;
//   }
//
// Owns the device, the segment and the slices of its own parameters that it stores itself; borrows the context.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/base/index.h"
#include "core/plan/schedule_cursor.h"
#include "core/plan/turn.h"
#include "core/train/executor.h"
#include "core/train/feeding.h"
#include "node/ring/home_slice.h"
#include "node/ring/ring_context.h"
#include "node/ring/ring_flows.h"
#include "node/ring/ring_ports.h"
#include "node/ring/save_records.h"

namespace millrace {

// Where samples are scored: devices behind it have no work.
int64_t device_of_loss(const Plan& plan, const Graph& graph);

class Worker final : public Updatable {
 public:
  enum class State { kReady, kUpdate, kWaits, kOver };

  Worker(const RingContext& context, int64_t index, std::unique_ptr<Device> device);

  int64_t index() const { return index_; }
  Device& device() { return *device_; }
  SegmentExecutor& segment() { return segment_; }
  const SegmentExecutor& segment() const { return segment_; }
  int64_t slice_bytes() const;
  // A slice of parameters of another device's steps, stored on this one: gradients for it are made here.
  void make_gradients_for(HomeSlice& slice);

  // From the seed, or from a checkpoint; before anything runs.
  void initialize(uint64_t seed);
  void restore(const CheckpointContent& content);
  // From weights of another training: the names of parameters that were taken.
  void take_weights(const TensorMap& weights);

  // Appends what the next action lacks.
  State look(std::vector<Interest>& missing);
  // Of a ready action: among the devices of a rank the least acts first.
  Turn turn() { return turn_of(*cursor_.next(), index_, takes_oldest_first(plan().alignment)); }
  // One action, or one phase of it.
  void perform();
  StateStreams& states() { return ports_.states(); }
  // Of the next action, "" when there is none.
  std::string next_action() const;
  // Its next action is the first of a mini-batch that nobody has decided about.
  bool begins_undecided();
  int64_t awaited_decision() const { return cursor_.awaited_decision(); }
  void decide(int64_t mini_batch, const Decision& decision);
  void evaluate_only();
  // Made so far, counted from the beginning of the training.
  int64_t updates() const { return updates_; }
  std::string first_non_finite(int64_t s) { return segment_.first_non_finite(s); }

  int64_t due() override;
  int64_t gradient_elements() const override;
  void read_gradients(HostNumbers values) override;
  void write_gradients(ConstHostNumbers values) override;
  double squared_gradient_norm() override;
  void update(const UpdateArguments& arguments) override;

 private:
  // A slice that a remote parameter vector is put together from.
  struct LentPiece {
    size_t home = 0;
    int64_t place = 0;           // in the vectors of the segment, one behind the other
    HomeSlice* local = nullptr;  // stored here
    int64_t parameters = -1;     // else: the flow it arrives on
    int64_t gradients = -1;      // and the one its gradient leaves on; -1: none does
  };

  const Plan& plan() const { return context_.plan(); }
  LoaderOptions loading() const;
  void find_remote();
  // Around every action and update: by the trace's clock, the stopwatch's and the pace's.
  Instant begin_action(const Action& action);
  void end_action(const Action& action, Instant begin);
  void look_for(const Action& action, std::vector<Interest>& missing);
  HostNumbers remote_numbers() { return buffer_.of(device_->compute_type(), remote_elements_); }
  void fetch_remote(const Action& action);
  void return_gradients(int64_t s);
  void give_gradients_of_records();
  HeldBatch& held(int64_t s) { return held_[to_size(s) % held_.size()]; }
  int64_t phases_of(const Action& action) const;
  void forward(const Action& action);
  void validate(const Action& action);
  void count(int64_t s, const Score& score);
  void save_parameters(SaveWriter& writer, SaveKind kind);
  void save_optimizer(SaveWriter& writer);
  void use_current_weights(int64_t version);
  void write_weights(const TensorMap& weights, std::optional<int64_t> version);

  RingContext context_;
  int64_t index_;
  bool scores_here_;  // the loss is computed here: devices behind it have no work
  std::unique_ptr<Device> device_;
  SegmentExecutor segment_;
  ScheduleCursor cursor_;
  PassCounter passes_;
  std::optional<bool> takes_pass_;  // the next action
  int64_t phase_ = 0;               // of it, where it is taken in several
  int64_t passes_taken_ = 0;
  RingPorts ports_;
  std::unique_ptr<Loader> loader_, evaluation_loader_;
  std::vector<HeldBatch> held_;
  HeldBatch evaluated_;
  const Batch* evaluation_batch_ = nullptr;
  std::vector<std::unique_ptr<HomeSlice>> slices_;
  std::vector<LentPiece> pieces_;
  struct RecordPiece {
    HomeSlice* slice = nullptr;
    size_t gradient = 0;  // of the segment's gradients of records
    ShardVector places;   // of the slice's user in it
  };
  std::vector<RecordPiece> record_pieces_;
  std::vector<int64_t> remote_places_;  // of the segment's remote parameters, likewise
  int64_t remote_elements_ = 0;
  HostBuffer buffer_;
  struct Scored {
    Score score;
    int64_t micro_batches = 0;
  };
  std::map<int64_t, Scored> scores_;  // last device: by mini-batch
  Scored evaluation_;
  int64_t updates_ = 0;
  // Resumed in an alignment that does not drain: written once the micro-batches that were under way have gone forward again.
  std::optional<TensorMap> current_weights_;
};

}  // namespace millrace
