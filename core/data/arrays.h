// Data sets out of NumPy's arrays: images of bytes or floats, vectors, or steps of features.
//
//   const DataSplit data = load_arrays("mnist.npz", "arrays:mnist.npz");
//
// FILE.npz, or a FOLDER of .npy files, with x_train, y_train, x_test, y_test (or train_images, train_labels, test_images, test_labels),
// or x and y, of which a share is held out by seed. x has a sample per entry of its first dimension:
//   | elements | further dimensions          | become                                                                |
//   | uint8    | [H, W], [H, W, C], [C, H, W] | images, normalised by mean and deviation like any others              |
//   | others   | the same                    | images, as they are: neither normalised, padded nor enlarged          |
//   | others   | [T, F] with layout=steps    | sequences of T steps with F features                                  |
//   | whole    | [T] with layout=ids         | sequences of T tokens, ids from 0; ids=N: there are so many of them   |
//   | any      | [F]                         | vectors, as images of F channels of one pixel                         |
// C is 1 or 3; where both ends could be it, layout=hwc or layout=chw says which. y holds class numbers, [N] or [N, 1], from 0. Names of
// classes come from classes.txt beside the arrays, one a line, where it is there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/npy.h"

namespace millrace {

enum class ArrayLayout { kGuess, kHwc, kChw, kSteps, kIds };

// x alone, as samples with label 0 and one class: for predictions, and the first half of load_arrays.
Dataset dataset_from(const NpyArray& x, ArrayLayout layout, std::string_view origin);

DataSplit load_arrays(std::string_view arguments, std::string_view what);

}  // namespace millrace
