// A job resolved to everything a trainer needs: data, adapted model, graph and plan. Refuses what does not fit before
// anything is allocated.
//
//   const TrainingTask task = prepare_task(job);
//   for (const std::string& note : task.notes) log::info("{}", note);
//
// A plan comes from a file, or from whoever plans (the partitioner is not known here); for one device that computes here it
// is made on the spot.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
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
  // Nanoseconds that this process's first device has waited for samples to train on.
  std::shared_ptr<std::atomic<int64_t>> data_wait = std::make_shared<std::atomic<int64_t>>(0);

  int64_t updates_per_epoch() const { return data.train.size() / (plan.mini_batch * job.replicas); }
};

// A shorthand or the path of a .textproto document.
Cluster find_cluster(std::string_view shorthand_or_path);

// Plans a ring for the job's cluster. Nothing when the cluster is one device that needs no planning.
using MakePlan = std::function<std::optional<Plan>(const Graph& graph, const Job& job)>;

TrainingTask prepare_task(const Job& job, const MakePlan& make_plan = {});

}  // namespace millrace
