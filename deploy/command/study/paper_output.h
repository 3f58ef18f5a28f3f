// What `millrace study --paper` prints and writes: a paper's figures beside this program's.
//
//   fmt::print("{}", paper_table(rows, board));
//
// The JSON's keys are a contract: paper, accounting, memory_model, device, rows[{id, quantity, network, unit, paper, paper_text, source,
// model, difference, tolerance[2], verdict, contradiction, otherwise, note, constants}], constants[{name, value, unit, origin, note}],
// counts by verdict; with --simulate, rows that apply have simulated, simulated_verdict and simulated_note. What is not bounded or not
// there is null.
#pragma once

#include <string>
#include <vector>

#include "core/documents/catalogue.h"
#include "partitioner/study/fpdeep_study.h"

namespace millrace {

std::string paper_table(const std::vector<PaperRow>& rows, const CatalogueDevice& board);
std::string paper_json(const std::vector<PaperRow>& rows, const CatalogueDevice& board);
std::string paper_csv(const std::vector<PaperRow>& rows);

}  // namespace millrace
