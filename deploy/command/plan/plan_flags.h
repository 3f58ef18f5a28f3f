// What `millrace plan` was asked on its command line, and what that means to the planner.
//
//   const PlanOptions options = options_of(flags, job, models);
//   const ChosenPlan chosen = choose_plan(task, freedom_of(flags, task, "vc709x15", catalogue));
//
// Flags override the job's file. Everything here fails with kUsage, names the flag and says what to write. Internal to deploy/command/plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/catalogue.h"
#include "core/documents/job.h"
#include "deploy/command/plan/profile_plan.h"
#include "deploy/session/cost_models.h"
#include "deploy/session/plan_inference.h"
#include "partitioner/choice/choose.h"
#include "partitioner/planning/planning.h"

namespace millrace {

struct PlanFlags {
  std::string job_file, model, cluster, strategy = "hybrid", alignment, accounting, optimizer, batch_norm, balance = "auto",
                                        order = "given", replicas, laps, engine, divide = "auto", mode = "overlap", out, report, show;
  std::vector<std::string> catalogues, pins, cuts, compare;
  std::optional<int64_t> mini_batch, micro_batch, bits;
  std::string time_chunks;
  std::optional<double> link_gbps, link_gbps_both;
  double epoch_images = 1281167;
  InferenceRequest batch;  // of inference
  bool inference = false, recompute = false, explain = false, resources = false, allow_empty = false, fc_barrier = false,
       fpdeep_lifetimes = false, exactly = false, json = false;
  ProfilePlanFlags profile;
  std::vector<std::string> given;  // names of the options on the command line
  bool is_given(std::string_view option) const { return std::ranges::find(given, option) != given.end(); }
  std::string command;  // as it was typed, near enough to type it again
};

// An option of another way of planning would be ignored in silence: those of strategy kind and its opposite, those of boards in a
// ring without any, those of training beside --inference, and, in `way` ("with --show"), all but those that it reads.
void refuse_options_of_other_strategies(const PlanFlags& flags);
void refuse_options_of_boards(const PlanFlags& flags, const CostModels& models);
void refuse_training_options(const PlanFlags& flags);
void refuse_inference_options(const PlanFlags& flags);
void refuse_idle_options(const PlanFlags& flags, std::string_view way, const std::vector<std::string>& read);

// 0: to be chosen.
int64_t time_chunks_of(const PlanFlags& flags, const Job& job);
bool some_dedicated(const CostModels& models);
PlanOptions options_of(const PlanFlags& flags, const Job& job, const CostModels& models);

// What the planner may choose: the order of the devices, and rings side by side.
Freedom freedom_of(const PlanFlags& flags, const PlanTask& task, const std::string& cluster_name, const Catalogue& catalogue);

}  // namespace millrace
