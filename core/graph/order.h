// The linear order of a model's layers, found from names alone.
//
//   const LinearOrder order = linear_order_of(model);
//   const Layer& first = model.layers[order.layers[0]];
//
// Among layers whose operands are all placed, the one that stands first in the document comes next; so a document that
// is already topological keeps its order. Fails with a named error on empty, repeated or reserved names, unknown
// inputs (suggesting the nearest name), and cycles (naming the layers on one).
// O(layers + inputs, times a logarithm). Internal to core/graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/model.h"

namespace millrace {

struct LinearOrder {
  std::vector<size_t> layers;                // positions in Model::layers
  std::vector<std::vector<int64_t>> inputs;  // per place in the order, places in the order; kNetworkInput
};

LinearOrder linear_order_of(const Model& model);

// suggestion() for layer names, which stays short for a model with very many.
std::string layer_suggestion(std::string_view given, const std::vector<std::string>& names);

}  // namespace millrace
