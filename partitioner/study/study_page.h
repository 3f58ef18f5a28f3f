// A study as a page to read: core/drawing's charts around what a sweep found.
//
//   write_atomically(folder / "index.html", study_page(sweep, "millrace study --model vgg16 --device vc709"));
//
// It shows what FPDeep's Figs 5, 10, 14, 15 and 16 do, of what the sweep holds: throughput with the roof that links put on it,
// idle stages, epochs per hour, link loads and memory by number of devices; strategies by four metrics; 1-D beside 2-D
// interconnect; devices of one ring; throughput lost to failures. The page stands alone; everything on it is modelled unless it
// says "simulated".
#pragma once

#include <string>
#include <string_view>

#include "partitioner/study/study_sweep.h"

namespace millrace {

std::string study_page(const StudySweep& sweep, std::string_view command);

}  // namespace millrace
