// What `millrace simulate` prints: a summary for people, JSON for scripts.
//
//   fmt::print("{}", simulation_table(view));
//   fmt::print("{}", simulation_json(view));
//
// The JSON's keys are a contract: images_per_second, idle_fraction, devices[{index, idle_fraction, buffer_peak_bits}],
// links[{from, to, forward_bits_per_image, backward_bits_per_image, utilisation}], in_flight_samples, simulated_seconds,
// wall_seconds, events; and, beyond it, model, cluster, alignment, mini_batch, micro_batch, images, fc_barrier, times ("modelled" or
// "measured": of the engines), ranks, origin
// ("simulated"), fill_seconds, planned{accounting, images_per_second, over ("mini-batches", "steady"), steady_from_images (null: the run
// is long enough to leave out how the ring fills and ends), difference, in_flight_samples},
// mini_batch_images_per_second (over whole mini-batches; null where there are fewer than two), reasons[{reason, text}], state_bytes,
// work_of_ranks[{first_device, events, messages, seconds, waiting_seconds, processor_seconds}] (measured), and per
// device name, waiting{input, output, parameters, update, core}, act_ram_peak_bits, act_ram_plan_bits, fifo_peak_bits.
// Where something befalls the ring (scenario.h): scenario{stragglers{slowed, slowest_device, slowest_factor}, jitter_seconds, seed,
// replicas{count, all_reduce, group, all_reduce_seconds, all_images_per_second}}, each where it is given; failures{...}.
#pragma once

#include <optional>
#include <string>

#include "node/simulate/findings.h"
#include "node/simulate/simulate.h"
#include "partitioner/planning/sample_word.h"
#include "partitioner/planning/summary.h"
#include "partitioner/study/study_sweep.h"

namespace millrace {

struct SimulationView {
  const Plan* plan = nullptr;
  const PlanSummary* summary = nullptr;
  const SimulationResult* result = nullptr;
  SimulationOptions options = {};
  int64_t ranks = 1;
  SampleWord sample = {"image", "images"};
  bool rows_stream = true;  // some device has engines of its own
  std::optional<FailureStudy> failures = {};
};

// What the plan says of such a run: its pace between updates, where the run is too short for whole mini-batches.
SimulationForecast forecast_of(const SimulationView& view);
std::string simulation_table(const SimulationView& view);
std::string simulation_json(const SimulationView& view);

}  // namespace millrace
