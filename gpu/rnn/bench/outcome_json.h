// What a measured case says in the results' JSON, and what all cases say together.
//
//   file.end(name_of(one), fields_of(outcome));
//   const Fields summary = summary_of(file);              // geometric means over what the file holds, earlier runs included
#pragma once

#include <string>

#include "gpu/rnn/bench/outcome.h"
#include "gpu/rnn/bench/result_file.h"

namespace millrace::rnn {

std::string fields_of(const Outcome& outcome);

struct Summary {
  int cases = 0;
  int wrong = 0;  // wrong, refused or broken
  // Best peer's time over the grid, batch up to 20, by that of the chosen and by our own kernels'; 0 without a peer.
  double mean = 0, worst = 0;
  double own_mean = 0, own_worst = 0;
};
Summary summary_of(const ResultFile& file);
Fields fields_of(const Summary& summary);

}  // namespace millrace::rnn
