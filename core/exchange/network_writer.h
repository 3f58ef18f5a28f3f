// Builds a Model layer by layer out of a foreign file: unique names that a model document takes, and shapes known as it goes.
//
//   NetworkWriter net("net.onnx");
//   net.set_input(InputKind::kImage, {3, 32, 32});
//   const NetworkValue conv = net.add("Conv_0", Conv2d{.out_channels = 8}, {net.input()});
//   net.set_weight(conv.layer, "weight", tensor, "conv.weight", "as it is");
//
// Internal to core/exchange. Shapes are inferred as Graph infers them, so that what does not fit fails at the layer it came from.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/exchange/imported.h"

namespace millrace {

struct NetworkValue {
  std::string layer;
  Shape shape;
};

class NetworkWriter {
 public:
  NetworkWriter(std::string_view name, std::string source);

  void set_input(InputKind kind, const Shape& shape);
  NetworkValue input() const { return {std::string(kInputName), imported_.model.input}; }
  // `name` as the file has it; a model document's name is made of it.
  NetworkValue add(std::string_view name, Operation operation, const std::vector<NetworkValue>& inputs);
  Operation& operation_of(const std::string& layer);
  // The layer's tensor as float, with where it came from. Fails with kMismatch when its dimensions are not what the layer wants.
  void set_weight(const std::string& layer, const std::string& tensor, std::vector<int64_t> dimensions, const std::vector<float>& values,
                  std::string source, std::string transform);
  void note(std::string text) { imported_.notes.push_back(std::move(text)); }
  // Appends the loss behind `scores` and checks that every parameter has its tensor.
  Imported finish(const NetworkValue& scores);

 private:
  std::string unique(std::string_view name);

  Imported imported_;
  std::set<std::string> names_;
  std::map<std::string, std::vector<Shape>> inputs_;  // of each layer
};

// A name that documents take: other characters become _.
std::string document_name(std::string_view name);

// Rows of a [rows, columns] matrix (or a vector, columns 1) in another order of equal blocks: block b of the result is block order[b].
std::vector<float> reorder_blocks(const std::vector<float>& values, int64_t columns, const std::vector<int>& order);
std::vector<float> transposed(const std::vector<float>& values, int64_t rows, int64_t columns);

}  // namespace millrace
