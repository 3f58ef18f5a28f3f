// Training on a ring: what one rank does from the first agreement to the last goodbye.
//
//   TrainingTask task = prepare_task(job, make_plan);
//   Transport transport(make_ring_wire(session.world()), {.deadline = ..});
//   Agreement agreement(transport);
//   RingTrainer trainer(task, transport, agreement, [](int64_t device) { return make_cpu_device(); }, {.sinks = {&lines}});
//   const TrainingOutcome outcome = trainer.run();         // on every rank; full on rank 0
//
//   TrainingOutcome outcome = train_alone(task, open_device, options);         // all devices in this process
//
// Everything numeric follows from the task, the devices and the seed: the same plan gives the same bits on any number of
// ranks. Evaluations and checkpoints do not change the weights.
// What cannot be trained is refused before the first update, everywhere and in the same words: SharedError.
// Borrows task, transport, agreement, sinks and column. One run() or forecast() per trainer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/train/course.h"
#include "node/ring/device_flows.h"
#include "node/ring/handed_out.h"
#include "node/ring/rank.h"
#include "node/ring/replica_column.h"
#include "node/ring/together.h"
#include "node/ring/training_lead.h"
#include "transport/streams/agreement.h"

namespace millrace {

struct TrainerOptions {
  std::vector<MetricsSink*> sinks = {};                 // besides the run's metrics.jsonl
  std::map<std::string, std::string> fingerprint = {};  // what the numbers depend on: versions, ISA, kernel table
  std::string rates = {};                               // a catalogue that the plan was made with; kept in the run's folder
  std::filesystem::path resume = {};                    // a run's folder; empty: start anew
  RankSignals signals = {};
  int64_t log_every = 0;             // updates between "step" records; 0: ten per epoch
  int64_t stop_after = 0;            // updates, whatever the job says; 0: as it says. Learning rates are the job's
  std::filesystem::path trace = {};  // written at the end; empty: none
  std::filesystem::path times = {};  // what the actions took, written at the end; empty: not measured
  std::filesystem::path pace = {};   // such a file: no action takes less than it says; empty: as long as they take
  bool computes_on_thread = false;   // the devices compute on the thread that acts, so its processor time is what they take
  ReplicaColumn* column = nullptr;   // the replicas of this rank; null: one ring
  DeviceLinks* links = nullptr;      // what the transport's wire was made by; null: all messages lie in host memory
  Deal deal = Deal::kBlocks;         // which ranks host which devices; the same weights either way
  std::string bar = "training";      // what its progress is called
  // What the job's time limit counts from.
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  bool log_samples = false;  // the samples of every update, in the run's folder; of one ring
  // Told the newest checkpoint's folder: that which a resumed training starts from, then each as it is complete. On the rank that leads.
  std::function<void(const std::filesystem::path& folder)> saved = {};
  // What this rank's devices have to say when all is over, while they are still open; gathered into TrainingOutcome::reports.
  std::function<std::string()> report = {};
};

// What a training would take, before it starts.
struct TrainingForecast {
  std::vector<RankMemory> memory;  // by rank, of the tensors and messages, exact
  int64_t updates_per_epoch = 0;
  int64_t total_updates = 0;
  double seconds_per_update = 0;  // measured over `measured_updates`
  int64_t measured_updates = 0;
};

class RingTrainer {
 public:
  RingTrainer(const TrainingTask& task, Transport& transport, Agreement& agreement, OpenDevice open_device, TrainerOptions options);
  ~RingTrainer();

  TrainingOutcome run();
  // Times a few updates on throw-away weights. Call instead of run().
  TrainingForecast forecast();

  // Of the streams of this rank, when it is over.
  FlowCounters counters(int64_t flow) const { return transport_.counters(flow); }

 private:
  void agree_on_everything();
  void make_rank(const CheckpointContent* resumed);
  void choose_links(const DevicesHere& devices);
  void open_rank(const CheckpointContent* resumed);
  std::optional<CheckpointContent> find_checkpoint();
  HandedOut hand_out(std::string_view what, const std::filesystem::path& path);
  void refuse_what_does_not_fit() const;
  void refuse_times_of_one_update(const CheckpointContent* resumed) const;
  void load_pace();
  std::string received_here() const;
  // Of what all ranks tell; by the one that speaks.
  void write_trace(const std::vector<std::string>& all) const;
  void write_times(const std::vector<std::string>& all) const;
  void write_flows(const TrainingLead& lead, const std::vector<std::string>& all) const;
  void tell_memory();
  // One rank of all rings says what is said once.
  bool speaks() const { return transport_.rank() == 0 && first_ring_; }

  const TrainingTask& task_;
  Transport& transport_;
  OpenDevice open_device_;
  TrainerOptions options_;
  Plan plan_;  // as it is computed here
  RingFlows flows_;
  Agreement& agreement_;
  Course course_;
  bool first_ring_;
  std::optional<Agreement> column_agreement_;  // over the rings
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<ActionStopwatch> watch_;
  std::optional<ActionTimes> pace_;
  std::unique_ptr<Rank> rank_;
};

// A ring of one rank, without MPI.
TrainingOutcome train_alone(const TrainingTask& task, const OpenDevice& open_device, const TrainerOptions& options = {});
TrainingForecast forecast_alone(const TrainingTask& task, const OpenDevice& open_device);

}  // namespace millrace
