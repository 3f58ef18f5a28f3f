// A job resolved to everything a trainer needs: data, adapted model, graph and plan. Refuses what does not fit before
// anything is allocated.
//
//   const TrainingTask task = prepare_task(job);
//   for (const std::string& note : task.notes) log::info("{}", note);
//
// Limits: without a plan file, the cluster must be one device; plans for rings come from the partitioner.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/dataset.h"
#include "core/documents/job.h"
#include "core/documents/plan.h"
#include "core/graph/adapt.h"
#include "core/graph/graph.h"

namespace millrace {

struct TrainingTask {
  Job job;
  DataSplit data;
  DataTransform transform;
  Plan plan;
  std::unique_ptr<Graph> graph;  // of plan.model
  std::vector<std::string> notes;

  int64_t updates_per_epoch() const { return data.train.size() / (plan.mini_batch * job.replicas); }
  // Of the whole training.
  int64_t total_updates() const;
};

// A shorthand or the path of a .textproto document.
Cluster find_cluster(std::string_view shorthand_or_path);

TrainingTask prepare_task(const Job& job);

}  // namespace millrace
