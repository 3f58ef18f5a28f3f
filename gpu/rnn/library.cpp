#include "gpu/rnn/library.h"

#include <algorithm>
#include <string>

namespace millrace::rnn {
namespace {

// The part of a library's linear layer that stands for ours: where it lies in the space and in Weights.
struct Part {
  std::vector<float> Weights::*values;
  long long offset;  // in values
  long long at;      // in the space
  long long count;
};

// Every part of a side that has a counterpart in Weights.
std::vector<Part> parts_of(const RnnShape& shape, const std::vector<LinearPlace>& places, int side, std::size_t space) {
  const long long hidden = shape.hidden;
  std::vector<Part> parts;
  const auto add = [&](std::vector<float> Weights::*values, long long offset, long long at, long long count, int layer) {
    if (at < 0 || at + count > static_cast<long long>(space))
      throw RnnError(RnnFailure::kMissingPart, "the library's linear layer " + std::to_string(layer) + " of side " + std::to_string(side) +
                                                   " lies at element " + std::to_string(at) + " of a space of " + std::to_string(space) +
                                                   "; use another version of the library, or our own kernels");
    parts.push_back({values, offset, at, count});
  };
  for (int layer = 0; layer < 2 * shape.gates(); ++layer) {
    const bool of_input = layer < shape.gates();
    const int gate = layer % shape.gates();
    const auto place =
        std::find_if(places.begin(), places.end(), [&](const LinearPlace& one) { return one.side == side && one.layer == layer; });
    const LinearPlace found = place == places.end() ? LinearPlace{} : *place;
    if (of_input) {
      add(&Weights::input, gate * hidden * shape.inputs, found.matrix, hidden * shape.inputs, layer);
      add(&Weights::bias, gate * hidden, found.bias, hidden, layer);
    } else {
      add(&Weights::recurrent, gate * hidden * hidden, found.matrix, hidden * hidden, layer);
      if (shape.recurrence == Recurrence::kGru && gate == 2) add(&Weights::candidate_bias, 0, found.bias, hidden, layer);
    }
  }
  return parts;
}

}  // namespace

void place_weights(const RnnShape& shape, const std::vector<LinearPlace>& places, int side, const Weights& weights,
                   std::vector<float>& space) {
  for (const Part& part : parts_of(shape, places, side, space.size())) {
    const std::vector<float>& values = weights.*part.values;
    if (static_cast<long long>(values.size()) < part.offset + part.count)
      throw RnnError(RnnFailure::kUnsupportedSize, std::to_string(values.size()) + " weights of a kind, where this layer has at least " +
                                                       std::to_string(part.offset + part.count));
    std::copy_n(values.begin() + part.offset, part.count, space.begin() + part.at);
  }
}

Weights weights_in(const RnnShape& shape, const std::vector<LinearPlace>& places, int side, const std::vector<float>& space) {
  Weights weights;
  for (const Part& part : parts_of(shape, places, side, space.size())) {
    std::vector<float>& values = weights.*part.values;
    values.resize(std::max(values.size(), static_cast<std::size_t>(part.offset + part.count)));
    std::copy_n(space.begin() + part.at, part.count, values.begin() + part.offset);
  }
  return weights;
}

}  // namespace millrace::rnn
