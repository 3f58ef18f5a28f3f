// Runs what `millrace train` was asked for: on one process alone, or as one rank of an MPI job.
//
//   return run_training({.job = job, .dry_run = true});
//
// Under mpirun rank 0 speaks for all: notes, progress, results; what all ranks would refuse is said once. Hosts
// need no file system in common: what job and resumed run name is read where it lies, or comes from rank 0, where checkpoints go.
// Exit status as the command's; of an MPI job as transport/mpi/mpi_session.h says.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "core/documents/job.h"
#include "deploy/devices/device_registry.h"
#include "partitioner/planning/planning.h"
#include "transport/nccl/link_choice.h"

namespace millrace {

struct TrainRequest {
  Job job;
  // Instead of it where it stands in a file: of several ranks the first alone reads it, and the others get it from there.
  std::function<Job()> read_job = {};
  Accounting accounting = Accounting::kFull;  // of a plan that is made on the spot
  std::string resume = {};
  DeviceOptions devices = {};  // threads are the job's
  std::string trace = {};
  int64_t log_every = 0;
  double deadline_seconds = 30;
  bool dry_run = false;
  bool json = false;
  bool log_samples = false;
  bool checksums = false;
  bool shape_links = false;
  LinkUse links = LinkUse::kAuto;
  std::string deal;  // of devices to ranks (ring_deal.h); empty: auto
  std::string times = {};
  bool measure = false;  // the processor's rates first, to plan with
  std::string pace = {};
  int64_t calibrate = 0;     // updates in fp32 from which 16-bit devices get their formats; 0: their own
  std::string formats = {};  // or a file of formats
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();  // what the job's time limit counts from
};

int run_training(const TrainRequest& request);

}  // namespace millrace
