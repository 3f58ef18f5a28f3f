// An engine that launches what it has launched before as one graph. Where a network has many small kernels, each takes less than its
// launch: a graph of two dozen is launched once. Internal to gpu/device.
//
//   auto engine = std::make_unique<ReplayingEngine>(open_gpu_engine(0));
//   engine->run(AddBias{...});                 // held back
//   engine->record(event, Queue::kCompute);    // ... and so on, until there are enough, or somebody waits
//
// Calculations are held back, never more than kMost of them, until kEnough have come when an event is recorded, or until something waits
// for them or comes behind them from elsewhere: then they go to the engine in the order they came in. A row of calls that is equal to an
// earlier one in every argument, addresses among them, is captured (Engine::begin_capture) the second time and replayed from then on.
// What an engine cannot capture is issued as before. Rows of one call, recurrences and what changes from call to call, as the draws of
// dropout and updates with a step count do, are issued as ever. Results are the same bits. Events recorded while calls are held back
// stand for some more of them than they would, never for fewer. Nobody else may use the queues: native() is null. Owns the engine; fails as
// it does, in the call that lets go.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gpu/device/engine.h"

namespace millrace::gpu {

struct ReplayCounts {
  int64_t issued = 0;     // calculations, one by one
  int64_t captured = 0;   // graphs
  int64_t refused = 0;    // rows of calls that could not be captured
  int64_t replayed = 0;   // launches of graphs
  int64_t in_graphs = 0;  // calculations that these took the place of
};

class ReplayingEngine final : public Engine {
 public:
  static constexpr size_t kEnough = 24, kMost = 96;
  static constexpr int64_t kMostGraphs = 1024;

  // `counts` may be null, and outlives it.
  explicit ReplayingEngine(std::unique_ptr<Engine> engine, ReplayCounts* counts = nullptr);
  ~ReplayingEngine() override;

  Facts facts() const override { return engine_->facts(); }
  MemoryState memory() override { return engine_->memory(); }
  void* allocate(size_t bytes) override { return engine_->allocate(bytes); }
  void release(void* memory) noexcept override { engine_->release(memory); }
  std::byte* allocate_pinned(size_t bytes) override { return engine_->allocate_pinned(bytes); }
  void release_pinned(std::byte* memory) noexcept override { engine_->release_pinned(memory); }

  int make_event() override { return engine_->make_event(); }
  void record(int event, Queue queue) override;
  void wait(Queue queue, int event) override;
  void wait_here(int event) override;
  void synchronize() override;

  void copy(Queue queue, const Copy& copy) override;
  void fill_zero(void* memory, size_t bytes) override { hold(Zero{memory, bytes}); }
  ConvolutionChoice choose(const ConvolutionGeometry& geometry, ConvolutionPhase phase, Precision precision, size_t most_workspace,
                           bool measure) override;
  void convolution(const Convolution& call) override { hold(call); }
  void gemm(const Gemm& call) override { hold(call); }
  RecurrenceChoice choose(const RecurrenceGeometry& geometry) override;
  void recurrence(const Recurrence& call) override;
  void run(const ElementWork& work) override { hold(work); }
  void run(const ReductionWork& work) override { hold(work); }

 private:
  struct Zero {
    void* memory = nullptr;
    size_t bytes = 0;
  };
  using Call = std::variant<Copy, Zero, Convolution, Gemm, ElementWork, ReductionWork>;
  struct Row {
    bool refused = false;
    int graph = -1;
  };

  void hold(Call call);
  bool is_held(int event) const;
  void let_go();
  void issue(const Call& call);
  void issue_all(const std::vector<Call>& calls);
  int capture(const std::vector<Call>& calls);

  std::unique_ptr<Engine> engine_;
  ReplayCounts own_counts_;
  ReplayCounts& counts_;
  std::vector<Call> held_;
  std::vector<int> events_;          // of the queue of calculations, behind what is held
  std::map<std::string, Row> rows_;  // by all arguments of all calls
};

}  // namespace millrace::gpu
