// The model document: layers by name, in any order, each with its operation and the names of its inputs.
//
//   const Model model = load_model("lenet.textproto");
//   save(model, "copy.textproto");
//
// A layer's output carries the layer's name; the network's input is called "input".
// This file says what a model IS; what it MEANS (order, shapes, counts) is core/graph/graph.h, which validates it.
// Plain values, copied freely.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace {

// channels x height x width of one sample. A sequence of T steps with F features is {F, T, 1}: a row is a time step.
struct Shape {
  int64_t channels = 0;
  int64_t height = 1;
  int64_t width = 1;

  int64_t elements() const { return channels * height * width; }
  int64_t plane() const { return height * width; }
  bool operator==(const Shape&) const = default;
};
// "64x32x32"
std::string text_of(const Shape& shape);

struct Conv2d {
  int64_t out_channels = 0;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
  bool bias = true;
  bool operator==(const Conv2d&) const = default;
};
struct Dense {
  int64_t out_features = 0;
  bool bias = true;
  bool operator==(const Dense&) const = default;
};
enum class PoolKind { kMax, kAverage };
struct Pool2d {
  PoolKind kind = PoolKind::kMax;
  int64_t kernel_h = 2, kernel_w = 2;
  int64_t stride_h = 2, stride_w = 2;
  int64_t pad_h = 0, pad_w = 0;
  bool ceil_mode = false;          // the last, partial window counts
  bool count_include_pad = false;  // average only: divide by the whole window
  bool operator==(const Pool2d&) const = default;
};
struct GlobalPool {
  PoolKind kind = PoolKind::kAverage;
  bool operator==(const GlobalPool&) const = default;
};
enum class ActivationKind { kRelu, kLeakyRelu, kSigmoid, kTanh };
struct Activation {
  ActivationKind kind = ActivationKind::kRelu;
  double slope = 0.01;  // leaky relu only
  bool operator==(const Activation&) const = default;
};
struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;  // running = (1 - momentum) * running + momentum * batch
  bool operator==(const BatchNorm&) const = default;
};
struct LocalResponseNorm {  // across channels: x / (k + alpha / size * sum of squares)^beta
  int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1.0;
  bool operator==(const LocalResponseNorm&) const = default;
};
struct Dropout {
  double probability = 0.5;
  bool operator==(const Dropout&) const = default;
};
struct Add {
  bool operator==(const Add&) const = default;
};
struct Concat {  // along channels
  bool operator==(const Concat&) const = default;
};
struct Flatten {  // {C, H, W} -> {C*H*W, 1, 1}
  bool operator==(const Flatten&) const = default;
};
struct SoftmaxCrossEntropy {  // softmax over channels, at every row and column; the network's last layer
  bool operator==(const SoftmaxCrossEntropy&) const = default;
};

enum class CellKind { kLstm, kGru, kVanillaRelu, kVanillaTanh };
struct Recurrent {
  CellKind cell = CellKind::kLstm;
  int64_t hidden = 0;
  int64_t projection = 0;      // LSTM only; 0: none
  bool bidirectional = false;  // output channels double
  bool reset_after = false;    // GRU only: the reset gate after the recurrent product, as cuDNN computes it
  bool stateful = false;       // h is kept between mini-batches
  int64_t truncation = 0;      // no error passes a step whose index is a multiple of it; 0: errors go back to the first step
  bool operator==(const Recurrent&) const = default;
};
struct Embedding {  // {1, T, 1} of token ids -> {dimension, T, 1}
  int64_t vocabulary = 0;
  int64_t dimension = 0;
  bool operator==(const Embedding&) const = default;
};
struct ToSequence {  // {C, T, W} -> {C*W, T, 1}
  bool operator==(const ToSequence&) const = default;
};
struct LastStep {  // {F, T, 1} -> {F, 1, 1}
  bool operator==(const LastStep&) const = default;
};
struct CtcLoss {
  int64_t blank = 0;
  bool operator==(const CtcLoss&) const = default;
};

using Operation = std::variant<Conv2d, Dense, Pool2d, GlobalPool, Activation, BatchNorm, LocalResponseNorm, Dropout, Add, Concat, Flatten,
                               SoftmaxCrossEntropy, Recurrent, Embedding, ToSequence, LastStep, CtcLoss>;

// "conv2d", "max_pool", "relu", "lstm", ...: the word used in documents, tables and messages.
std::string_view name_of(const Operation& operation);

// How a layer's weights start. Biases start at 0, scales at 1, except where a recurrent cell says otherwise.
enum class Initializer { kHeNormal, kHeUniform, kXavierNormal, kXavierUniform, kTorchUniform, kZero };

struct Layer {
  std::string name;
  Operation operation;
  std::vector<std::string> inputs;
  bool frozen = false;  // parameters stay as they are
  Initializer initializer = Initializer::kHeNormal;
  bool operator==(const Layer&) const = default;
};

enum class InputKind { kImage, kTokens, kFeatures };

struct Model {
  std::string name;
  InputKind input_kind = InputKind::kImage;
  Shape input;
  std::vector<Layer> layers;
  bool operator==(const Model&) const = default;
};

inline constexpr std::string_view kInputName = "input";

// The text-format document. `origin` names it in messages. Fails with kMalformed naming file, field and value.
Model parse_model(std::string_view text, std::string_view origin);
std::string text_of(const Model& model);
Model load_model(const std::filesystem::path& path);
void save(const Model& model, const std::filesystem::path& path);

}  // namespace millrace
