// The GPUs that Millrace knows, as a catalogue document that travels inside the program.
//
//   const Catalogue gpus = parse_catalogue(gpu_catalogue_text(), "gpu/catalogue");
//
// One .textproto per GPU, in this folder; a file added there is found by itself. Which values the cost model needs and what
// they mean: gpu/catalogue/gpu_cost_model.h. link_gbps is one direction to one ring neighbour: half of what leaves the GPU.
#pragma once

#include <string_view>

namespace millrace {

std::string_view gpu_catalogue_text();

}  // namespace millrace
