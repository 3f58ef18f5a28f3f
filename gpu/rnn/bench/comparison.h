// What a pass over a layer yields, and how far two passes are apart: outputs and every gradient.
//
//   const Comparison found = compare(shape, ours, cudnns);
//   if (!found.correct) ... found.worst names the tensor and its error ...
//
// Outputs differ by their largest absolute difference; a gradient by its largest difference over the largest element of its
// tensor, for each tensor apart. Both formats and orders of additions differ between the two, so that a tolerance per format
// counts as correct. The rectifier has a kink: a sum within rounding of zero may fall on either side of it, which changes a
// gradient by all of it; its gradients are allowed a hundred times the tolerance. Nothing that is not a number is correct.
// Pure functions of values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gpu/rnn/rnn_shape.h"

namespace millrace::rnn {

// One side's weights, as the benchmark runs layers. Gradients are empty when the pass was inference.
struct Results {
  std::vector<float> output;
  std::vector<float> input_gradient;
  Weights gradients;
  std::vector<float> first_state_gradient;
  std::vector<float> first_cell_gradient;
};

struct Comparison {
  double output = 0;                                      // absolute
  std::vector<std::pair<std::string, double>> gradients;  // relative, by tensor: dX, dW, dR, db, ...
  std::pair<std::string, double> worst_gradient;          // of those; no name without gradients
  bool correct = false;
};

double output_tolerance(Precision precision);
double gradient_tolerance(Precision precision, Recurrence recurrence);

Comparison compare(const RnnShape& shape, const Results& results, const Results& expected);

}  // namespace millrace::rnn
