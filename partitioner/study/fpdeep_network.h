// What FPDeep's figures ask of one network, step by step; each step's measurements as a text of JSON, to be kept and shared.
//
//   for (const std::string& step : network_steps("vgg16", /*simulated=*/false))
//     add_measurements("vgg16", run_network_step(boards, "vgg16", step, {}), measurements);
//
// Simulated steps measure under the same names, and look where the formulas, `known`, see limits. Internal to
// partitioner/study.
#pragma once

#include <string>
#include <vector>

#include "partitioner/study/fpdeep_study.h"

namespace millrace {

inline constexpr double kFpdeepHop = 0.5;  // us, to the next board
// What Table 6's hours take beside its GOPS: fitted, the paper does not explain it.
inline constexpr double kRateOfPaperHours = 0.82;

std::vector<std::string> network_steps(const std::string& network, bool simulated);
std::string run_network_step(const FpdeepBoards& boards, const std::string& network, const std::string& name, const Measurements& known);
void add_measurements(const std::string& network, const std::string& text, Measurements& measurements);

}  // namespace millrace
