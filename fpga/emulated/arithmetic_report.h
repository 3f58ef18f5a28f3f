// What fixed point did to the numbers of a training, over all devices of its ring: RUN_DIR/arithmetic.json.
//
//   const std::string mine = text_of(device->counters());                    // of one device; append those of a rank
//   const std::vector<TensorArithmetic> all = merged_arithmetic(texts);      // where the ranks' texts were gathered
//   write_atomically(run / "arithmetic.json", arithmetic_json(all));
//   log::info("{}", arithmetic_summary(all));
//
// Counts are exact and the same for any number of ranks. Errors are a root mean square and the largest one, in steps of the number's
// own format. Everything since the devices were opened counts, evaluations too.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fpga/emulated/emulated_fpga.h"

namespace millrace {

struct TensorArithmetic {
  std::string layer;
  std::string tensor;  // "inputs", "weights", "sums", "cells", "outputs", "errors", "gradients", "updates"
  int fraction_bits = 0;
  ArithmeticCounters counted;
};

std::string text_of(const std::map<std::string, LayerArithmetic>& counters);
// By layer, then in the order above; shards of a layer added up.
std::vector<TensorArithmetic> merged_arithmetic(std::span<const std::string> texts);
std::string arithmetic_json(std::span<const TensorArithmetic> arithmetic);
// One line: how many numbers did not fit, and where most.
std::string arithmetic_summary(std::span<const TensorArithmetic> arithmetic);

}  // namespace millrace
