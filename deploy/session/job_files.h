// The files that a job names, for every rank: read where they lie, or copies of what rank 0 has (node/ring/handed_out.h).
//
//   const JobFiles files(agreement, job);                          // all ranks
//   TrainingTask task = prepare_task(files.here(), planner);
//   task.job = job;                                                // what is written down and compared names the originals
//
// Model, cluster and plan documents, and data by format:PATH. Copies go with this object.
#pragma once

#include <vector>

#include "core/documents/job.h"
#include "node/ring/handed_out.h"

namespace millrace {

// Whether it may name files at all: the same answer on every rank.
bool may_name_files(const Job& job);

class JobFiles {
 public:
  JobFiles(Agreement& agreement, const Job& job);
  const Job& here() const { return here_; }

 private:
  Job here_;
  std::vector<HandedOut> files_;
};

}  // namespace millrace
