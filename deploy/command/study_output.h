// What `millrace study` prints and writes: tables for people, JSON and CSV for scripts.
//
//   fmt::print("{}", study_table(task, study));
//   fmt::print("{}", study_json(task, study));
//
// The JSON's keys are a contract: points[{devices, images_per_second, max_link_gbps, max_link_gbps_both, idle_fraction,
// hours_per_epoch, feasible}], linear_up_to; and, beyond it, model, device, strategy, alignment, mini_batch, bits, link{...}, first_slowed,
// origin ("modelled"), and per point reason, bottleneck{kind, index}, full_speed_images_per_second, gops_per_device,
// gops_per_joule, memory_fraction, in_flight_samples, flop_utilisation, storage_bits, communication_bits,
// communication_gbps, solve_seconds and, with --simulate, simulated{images_per_second, difference, idle_fraction,
// in_flight_samples}. An infeasible point's figures are null.
// For papers: paper, rows[{id, quantity, network, unit, paper, paper_text, source, model, difference, tolerance[2], verdict,
// contradiction, note, constants}], constants[{name, value, unit, origin, note}], counts by verdict. What is not bounded or
// not there is null.
#pragma once

#include <string>
#include <vector>

#include "core/documents/catalogue.h"
#include "partitioner/study/fpdeep_study.h"
#include "partitioner/study/study.h"

namespace millrace {

std::string study_table(const StudyTask& task, const Study& study);
std::string study_json(const StudyTask& task, const Study& study);
std::string study_csv(const Study& study);

std::string paper_table(const std::vector<PaperRow>& rows, const CatalogueDevice& board);
std::string paper_json(const std::vector<PaperRow>& rows, const CatalogueDevice& board);
std::string paper_csv(const std::vector<PaperRow>& rows);

}  // namespace millrace
