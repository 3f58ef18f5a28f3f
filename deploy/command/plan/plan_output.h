// What `millrace plan` prints: a table for people, JSON for scripts.
//
//   fmt::print("{}", plan_table(task, outcome, epoch_images, built));
//   fmt::print("{}", plan_json(task, outcome, epoch_images, explanation, built));
//
// The JSON's keys are a contract: model, strategy, feasible, reason, images_per_second, bottleneck{kind, index},
// hours_per_epoch, idle_fraction, gops_per_device, gops_per_joule, max_link_gbps, max_link_gbps_both,
// lower_bound_images_per_second, optimality_gap, solve_seconds, devices[{index, name, segment[{layer, split, begin, end}],
// dsp, dsp_capacity, lut, ff, bram_bits, bram_capacity_bits, memory_fraction, seconds_per_image}], links[{from, to,
// forward_bits_per_image, backward_bits_per_image, gbps}], homes[{layer, begin, end, home, user}]; and, beyond it, cluster,
// alignment, mini_batch, micro_batch, in_flight_samples, explanation[], shortage{device, resource, missing,
// smallest_count}, flop_utilisation, storage_bits, communication_bits, communication_gbps, origin ("modelled"), resources[{index, device,
// total, capacity, layers[{layer, total, modules[{module, dsp, lut, ff, bram36, uram}]}]}] with --resources; replicas, and
// choices[{what, chosen, next_best, images_per_second}], the last two null unless --explain asks for them; pace_ratio and
// waiting_pace_ratio (ring_check.h), null without boards or while one is not generated; mode (core/plan/pair_modes.h) of strategy kind.
#pragma once

#include <string>
#include <vector>

#include "deploy/session/ring_check.h"
#include "partitioner/planning/planning.h"

namespace millrace {

// What was left open, what of it was chosen, and what the next best would give, as far as that was asked for (--explain).
std::string choices_text(const PlanTask& task, const Outcome& outcome);
// `built`: of the outcome's plan.
std::string plan_table(const PlanTask& task, const Outcome& outcome, double epoch_images, const RingCheck& built);
// `resources`: with resource_output.h's figures of every FPGA.
std::string plan_json(const PlanTask& task, const Outcome& outcome, double epoch_images, const std::vector<std::string>& explanation,
                      const RingCheck& built, bool resources = false);

}  // namespace millrace
