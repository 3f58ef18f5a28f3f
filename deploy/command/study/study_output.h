// What `millrace study` prints and writes: tables for people, JSON and CSV for scripts.
//
//   fmt::print("{}", study_table(sweep));
//   fmt::print("{}", study_json(sweep));
//
// The JSON's keys are a contract: points[{devices, images_per_second, max_link_gbps, max_link_gbps_both, idle_fraction,
// hours_per_epoch, feasible}], linear_up_to; and, beyond it, model, device, strategy, alignment, mini_batch, bits, link{...}, first_slowed,
// origin ("modelled"), and per point reason, bottleneck{kind, index}, full_speed_images_per_second, link_roof_images_per_second,
// gops_per_device, gops_per_joule, memory_fraction, in_flight_samples, flop_utilisation, storage_bits, communication_bits,
// communication_gbps, device_dsp[], device_memory[], device_busy[], solve_seconds and, with --simulate,
// simulated{images_per_second, difference, idle_fraction, in_flight_samples, max_link_gbps}. An infeasible point's figures are null,
// as are hours where no epoch is known, GOPS per joule where no power is, and FLOP utilisation where a device's peak is not.
// Where several curves are swept, points have a curve, and curves[{name, strategy, alignment, mini_batch, bits, link, linear_up_to,
// first_slowed}] says of which; what stands at the top is the first one's. With --topology 2d: topology{layers, ports,
// points[{devices, boards[], one{bits_per_port, degree, bottleneck}, two{...}, ratio}]}. With --mtbf-hours: failures{devices,
// images_per_second, device_mtbf_seconds, ring_mtbf_seconds, checkpoint_seconds, restart_seconds, young_seconds, daly_seconds, failures,
// points[{interval_seconds, lost_modelled, lost_simulated, images_per_second}]}.
#pragma once

#include <string>

#include "partitioner/study/study_sweep.h"

namespace millrace {

std::string study_table(const StudySweep& sweep);
std::string study_json(const StudySweep& sweep);
std::string study_csv(const StudySweep& sweep);

}  // namespace millrace
