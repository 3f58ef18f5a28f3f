// Networks in ONNX, read into Millrace's own operations.
//
//   const Imported imported = import_onnx("net.onnx");
//   log::info("{}: {} tensors", imported.source, imported.tensors.size());
//
// Operators that are read: Conv, Gemm, MatMul (with an Add behind it), MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, Relu,
// LeakyRelu, Sigmoid, Tanh, BatchNormalization, LRN, Dropout, Add, Sum, Concat, LSTM, GRU, RNN, Gather (an embedding), Softmax and
// LogSoftmax at the end, and Flatten, Reshape, Transpose, Squeeze, Unsqueeze, Identity, Constant where they only rearrange what Millrace
// rearranges anyway. Convolutions and poolings over one dimension become ones of width 1. Everything else, every attribute that means
// something Millrace does not do, and every opset beyond kLatestOpset is refused with kUsage, by operator, node and reason. Damaged files
// are kMalformed: tensors whose bytes are not what their dimensions say, values nobody makes, external data outside of the model's folder.
// The number of samples may be anything or open; all other dimensions must be numbers. Sizes are checked before memory is asked for. Fails
// with kUnavailable when this build has no libonnx.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/exchange/imported.h"

namespace millrace {

inline constexpr int64_t kLatestOpset = 17;

Imported import_onnx(const std::filesystem::path& path);
// `folder`: where external data may lie; empty: nowhere.
Imported import_onnx(std::span<const std::byte> bytes, std::string_view origin, const std::filesystem::path& folder = {});

}  // namespace millrace
