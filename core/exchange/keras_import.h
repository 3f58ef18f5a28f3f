// Networks that Keras has written, read into Millrace's own operations.
//
//   const Imported imported = import_keras("net.keras");
//   const Imported imported = import_keras("net.json", "net.weights.h5");
//
// Four layouts: .h5 with architecture and weights, of Keras 2 or 3; the architecture as JSON beside weights in .h5; .keras, a zip of both.
// Sequential networks and functional ones with one input and one output. Layers: Dense, Conv1D, Conv2D, MaxPooling and AveragePooling 1D
// and 2D, the global poolings, LSTM, GRU, SimpleRNN, Bidirectional (concat, all steps), Embedding, TimeDistributed(Dense),
// BatchNormalization, Dropout, Activation, ReLU, LeakyReLU, Softmax at the end, Flatten, Add, Concatenate, InputLayer. Kernels are
// transposed, gates put in our order, and the rows of a Dense behind a Flatten permuted, for Keras flattens rows, columns, channels and
// Millrace channels, rows, columns. Data is channels_last there and the same picture here.
// Everything else is refused with kUsage, by layer, class and reason; damaged files are kMalformed; weights of another model kMismatch with
// both shapes. No code in a file is ever run: Lambda layers are refused. Fails with kUnavailable when this build has no HDF5.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/exchange/imported.h"

namespace millrace {

// `weights` is empty unless `model` is a JSON file.
Imported import_keras(const std::filesystem::path& model, const std::filesystem::path& weights = {});
// From memory: the architecture as JSON, the weights as HDF5.
Imported import_keras(std::string_view architecture, std::span<const std::byte> weights, std::string_view origin);

}  // namespace millrace
