// Where a Keras file keeps the weights of a layer, in any of its layouts.
//
//   const KerasWeights weights(file, /*by_class=*/false, "/model_weights");
//   const std::vector<KerasTensor> tensors = weights.of_layer({.name = "lstm_1", .class_name = "LSTM", .number = 0});
//
// Order is that of the file's own lists, never the alphabet's. Internal to core/exchange.
#pragma once

#include <string>
#include <vector>

#include "core/exchange/hdf5_file.h"

namespace millrace {

struct KerasTensor {
  std::string source;
  Hdf5Array array;
};

struct KerasPlace {
  std::string name;        // of the layer
  std::string class_name;  // "LSTM"
  int64_t number = 0;      // of layers of this class before it
};

class KerasWeights {
 public:
  // `by_class`: Keras 3's layout inside .keras, where groups are numbered by class. `base`: the group that holds the layers' groups.
  KerasWeights(const Hdf5File& file, bool by_class, std::string base) : file_(file), by_class_(by_class), base_(std::move(base)) {}

  // Of the layer itself or, with wrapped layers (Bidirectional, TimeDistributed), of those within, one behind the other.
  std::vector<KerasTensor> of_layer(const KerasPlace& place) const;

 private:
  const Hdf5File& file_;
  bool by_class_;
  std::string base_;
};

// "BatchNormalization" -> "batch_normalization", as Keras 3 numbers its groups.
std::string snake_case(const std::string& class_name);

}  // namespace millrace
