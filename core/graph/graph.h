// A validated model: its layers in linear order, shapes, who uses what, and exact counts.
//
//   const Graph graph(load_model("lenet.textproto"));
//   for (const Node& node : graph.nodes()) fmt::print("{} {}\n", node.layer.name, text_of(node.output));
//
// Construction fails with a named error on: unknown or repeated names, cycles, wrong numbers of inputs, shapes that do
// not fit (with the layer, both shapes and a likely cause). Immutable afterwards, thread safe, copied freely.
//
// The linear order is the document's order wherever that is already topological, so that plans stay readable.
// Limits: one network input, one loss layer at most, which is then the last; every other layer's output is read by
// somebody. Token ids (embedding) come from the network's input. Up to 2^31-1 per dimension, 2^36 elements per tensor.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index.h"
#include "core/documents/model.h"
#include "core/documents/plan.h"

namespace millrace {

inline constexpr int64_t kNetworkInput = -1;  // the node index of the network's input

struct Node {
  Layer layer;
  std::vector<int64_t> inputs;     // node indices; kNetworkInput for the network's input
  std::vector<int64_t> consumers;  // ascending, each once
  std::vector<Shape> input_shapes;
  Shape output;
  std::vector<ParameterSpec> parameters;
  Work work;
  bool computes = false;            // heads a group (core/operation/traits.h)
  bool divides = false;             // by input and output channels
  int64_t group = 0;                // which of Graph::groups() the layer belongs to
  bool trained = false;             // has trained parameters and is not frozen
  bool error_needed = false;        // somebody upstream (or the layer's own input side) must learn the error of its output
  bool input_error_needed = false;  // its EB has a reader
};

// A head and the layers that run after it, on the device that ends the head's group: every layer that does not
// compute belongs to the group of its latest operand, the one whose group is the last. A layer that works on the bare network input heads a
// group too.
struct LayerGroup {
  int64_t head = 0;
  std::vector<int64_t> after;  // ascending
};

class Graph {
 public:
  explicit Graph(Model model);

  const Model& model() const { return model_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(int64_t index) const { return fast_item(nodes_, index); }
  const std::vector<LayerGroup>& groups() const { return groups_; }
  // -1 when there is none.
  int64_t find(std::string_view name) const;
  // Fails with kNotFound, suggesting the nearest name.
  int64_t index_of(std::string_view name) const;
  // Shape of a node's output; of the network's input for kNetworkInput.
  const Shape& shape_of(int64_t index) const { return index == kNetworkInput ? model_.input : node(index).output; }
  const std::string& name_of(int64_t index) const;
  // Index of the loss layer; -1 when the model has none (prediction only).
  int64_t loss() const { return loss_; }
  // The tensor whose channels are the scores: the loss layer's input, or the last layer's output.
  int64_t scores() const;
  int64_t classes() const { return shape_of(scores()).channels; }

  int64_t parameter_count() const;
  // FP, for one sample.
  struct Macs {
    int64_t conv = 0, dense = 0, rnn = 0;
  };
  Macs macs() const;

 private:
  void connect();
  void find_end();
  void form_groups();
  void find_needed_errors();

  Model model_;
  std::vector<Node> nodes_;
  std::map<std::string, int64_t, std::less<>> names_;
  std::vector<LayerGroup> groups_;
  int64_t loss_ = -1;
};

}  // namespace millrace
