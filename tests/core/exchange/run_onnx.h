// Runs a file's network on the reference device, in double precision, with input and output in the file's own order of axes.
//
//   const Imported imported = import_onnx(bytes, "net.onnx");
//   const std::vector<double> y = run_imported(imported, x, {5, 2, 3});        // x of these dimensions, as the file wants it
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/data/npy.h"
#include "core/exchange/imported.h"
#include "core/reference/reference_device.h"
#include "core/train/safetensors.h"
#include "tests/golden/straight_line.h"

namespace millrace::testing {

// An array of fp64 or of anything that fits fp32.
inline std::vector<double> doubles_of(const NpyArray& array) {
  const auto n = static_cast<size_t>(array.elements());
  std::vector<double> values(n);
  if (array.width == 8) {
    std::memcpy(values.data(), array.bytes.data(), 8 * n);
  } else {
    const std::vector<float> floats = floats_of(array, "array");
    values.assign(floats.begin(), floats.end());
  }
  return values;
}

// Where each element of a tensor with these axes lies in our order, [sample][channel][row][column].
inline std::vector<size_t> places_of(const std::string& axes, const std::vector<int64_t>& dimensions, const Shape& shape) {
  std::vector<int64_t> strides;
  for (const char axis : axes) switch (axis) {
      case 'N': strides.push_back(shape.elements()); break;
      case 'C': strides.push_back(shape.plane()); break;
      case 'D': strides.push_back(shape.elements() / 2); break;
      case 'c': strides.push_back(shape.plane()); break;
      case 'H': strides.push_back(shape.width); break;
      default: strides.push_back(axis == 'W' ? 1 : 0);
    }
  std::vector<size_t> places;
  std::vector<int64_t> at(axes.size(), 0);
  int64_t elements = 1;
  for (const int64_t extent : dimensions) elements *= extent;
  for (int64_t i = 0; i < elements; ++i) {
    int64_t place = 0;
    for (size_t a = 0; a < at.size(); ++a) place += at[a] * strides[a];
    places.push_back(static_cast<size_t>(place));
    for (size_t a = at.size(); a-- > 0;) {
      if (++at[a] < dimensions[a]) break;
      at[a] = 0;
    }
  }
  return places;
}

inline std::vector<double> run_imported(const Imported& imported, const std::vector<double>& x, const std::vector<int64_t>& dimensions) {
  Model model = imported.model;
  model.layers.pop_back();                                                                                       // the loss
  if (model.input_kind == InputKind::kFeatures) model.input.height = dimensions[imported.input_axes.find('H')];  // it may be open
  // What a straight line is asked for is called LAYER.TENSOR: layers without dots.
  const auto plain = [](std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
  };
  for (Layer& layer : model.layers) {
    layer.name = plain(layer.name);
    for (std::string& input : layer.inputs) input = plain(input);
  }
  // A network that only rearranges: its scores are its input.
  if (model.layers.empty())
    model.layers.push_back({.name = "nothing", .operation = Dropout{.probability = 0.5}, .inputs = {std::string(kInputName)}});
  const Graph graph(model);
  const size_t samples_axis = imported.input_axes.find('N');
  const int64_t samples = dimensions[samples_axis];
  const auto device = make_reference_device(ElementType::kFloat64);
  StraightLine line(*device, graph, samples);
  for (const auto& [name, tensor] : imported.weights) {
    std::vector<double> values(static_cast<size_t>(tensor.elements()));
    copy_values(tensor, std::span<double>(values), name);
    const size_t dot = name.rfind('.');
    line.write(plain(name.substr(0, dot)) + name.substr(dot), values);
  }
  const std::vector<size_t> from = places_of(imported.input_axes, dimensions, model.input);
  std::vector<double> input(x.size());
  for (size_t i = 0; i < x.size(); ++i) input[from[i]] = x[i];
  const std::vector<int64_t> ids(static_cast<size_t>(samples), 0);
  MicroBatch batch;
  batch.training = false;
  batch.sample_ids = ids;
  line.forward(input, batch);
  const std::vector<double> output = line.read(graph.name_of(graph.scores()));
  const Shape& shape = graph.shape_of(graph.scores());
  std::vector<int64_t> extents;
  for (const char axis : imported.output_axes) switch (axis) {
      case 'N': extents.push_back(samples); break;
      case 'C': extents.push_back(shape.channels); break;
      case 'D': extents.push_back(2); break;
      case 'c': extents.push_back(shape.channels / 2); break;
      case 'H': extents.push_back(shape.height); break;
      default: extents.push_back(axis == 'W' ? shape.width : 1);
    }
  std::vector<double> y;
  for (const size_t place : places_of(imported.output_axes, extents, shape)) y.push_back(output[place]);
  return y;
}

// What the network ends in behind its scores: a softmax that import leaves out.
inline std::vector<double> softmax_along_channels(const Imported& imported, std::vector<double> y, const std::vector<int64_t>& dimensions,
                                                  bool logarithm) {
  const size_t axis = imported.output_axes.find('C');
  int64_t inner = 1, outer = 1;
  for (size_t a = 0; a < dimensions.size(); ++a) (a < axis ? outer : a > axis ? inner : inner) *= a == axis ? 1 : dimensions[a];
  const int64_t channels = dimensions[axis];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t c) -> double& { return y[static_cast<size_t>((o * channels + c) * inner + i)]; };
      double most = at(0), sum = 0;
      for (int64_t c = 0; c < channels; ++c) most = std::max(most, at(c));
      for (int64_t c = 0; c < channels; ++c) sum += std::exp(at(c) - most);
      for (int64_t c = 0; c < channels; ++c) at(c) = logarithm ? at(c) - most - std::log(sum) : std::exp(at(c) - most) / sum;
    }
  return y;
}

// Within 1e-5, or 1e-4 of the value.
inline void expect_close(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_LE(std::abs(found[i] - expected[i]), 1e-5 + 1e-4 * std::abs(expected[i]))
        << "element " << i << ": " << found[i] << ", expected " << expected[i];
}

}  // namespace millrace::testing
