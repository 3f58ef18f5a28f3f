// What a co-simulation is asked for on its command line.
//
//   const Flags flags = flags_of(argc, argv);       // --geometries 100 --seed 7; --cycles N where rows are counted too; --dilation 2 of
//   engines
//
// What is not given stays as below; a word that is unknown or has no number ends the program with status 2.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace millrace {

struct Flags {
  int64_t geometries = 6;
  int64_t cycles = 0;  // geometries whose cycles are counted instead
  uint64_t seed = 1;
  int64_t dilation = 1;  // of the kernels
};

inline Flags flags_of(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const bool known = name == "--geometries" || name == "--cycles" || name == "--seed" || name == "--dilation";
    if (!known || i + 1 == argc) {
      fmt::print(stderr, "{} {}\n", name, known ? "needs a number" : "is unknown: --geometries N, --cycles N, --seed N, --dilation N");
      std::exit(2);
    }
    const std::string number = argv[i + 1];
    if (name == "--geometries") flags.geometries = std::stoll(number);
    if (name == "--cycles") flags.cycles = std::stoll(number);
    if (name == "--dilation") flags.dilation = std::stoll(number);
    if (name == "--seed") flags.seed = std::stoull(number);
  }
  return flags;
}

}  // namespace millrace
