// Formats for a ring that computes in fixed point, from a few updates of its own training in single precision; and what became
// of its numbers.
//
//   FixedPointRun fixed(task, {.calibrate = 20});
//   fixed.choose_formats(agreement, some_have_formats(task.plan, device_options), speaks);       // every rank
//   ... trainer opens fixed.prepared(open_ring_device(...)) and gathers fixed.report() ...
//   fixed.finish(outcome.reports);                                // rank 0
//
// The updates run on plain loops on one device, from the task's seed and its first mini-batches, and are thrown away: formats depend
// on the task alone, so that every rank finds the same ones by itself, however many there are. They stand in the run's folder as
// formats.txt, which a resumed run reads again; arithmetic.json beside it says what did not fit. Devices in floating point, as a
// processor beside boards that make steps, have no formats and go on without.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/train/task.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
#include "fpga/emulated/emulated_fpga.h"
#include "transport/streams/agreement.h"

namespace millrace {

// What ends calibrating before its updates are done, besides the job's time limit.
struct CalibrationLimits {
  const std::atomic<bool>* stop = nullptr;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();  // what the time limit counts from
};

// Nothing where a limit ended it.
std::optional<LayerFormats> calibrated_formats(const TrainingTask& task, int64_t updates, const CalibrationLimits& limits = {});

struct FixedPointRequest {
  int64_t calibrate = 0;     // updates; 0: none
  std::string formats = {};  // a file of formats; empty: none
  bool resumed = false;
  bool keeps = true;  // writes the formats into the run's folder
  CalibrationLimits limits = {};
};

class FixedPointRun {
 public:
  FixedPointRun(const TrainingTask& task, FixedPointRequest request) : task_(task), request_(std::move(request)) {}

  // `wanted`: some device of the ring has formats. Fails with kUsage where they were asked for and none has, with kMismatch where those
  // that a resumed run was trained in are gone. False where a limit ended it, on whatever rank.
  bool choose_formats(Agreement& agreement, bool wanted, bool speaks);
  // In the chosen formats, and known to report(), which may be called while the trainer has its devices.
  std::unique_ptr<Device> prepared(std::unique_ptr<Device> device);
  const LayerFormats& formats() const { return formats_; }
  // Which they are, for the run's fingerprint: "4 layers, <digest>"; empty where there are none.
  std::string described_formats() const;
  std::string report() const;
  // Writes arithmetic.json; one line for people, empty where everything was computed in floating point.
  std::string finish(const std::vector<std::string>& reports) const;

 private:
  std::string known_formats(bool wanted) const;
  void require_formats_of_run() const;

  const TrainingTask& task_;
  FixedPointRequest request_;
  LayerFormats formats_;
  std::vector<const EmulatedFpga*> devices_;
};

}  // namespace millrace
