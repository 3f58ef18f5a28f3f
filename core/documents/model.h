// The model document: layers by name, in any order, each with its operation and the names of its inputs.
//
//   const Model model = load_model("lenet.textproto");
//   save(model, "copy.textproto");
//
// A layer's output carries the layer's name; the network's input is called "input".
// This file says what a model IS; what its operations are is core/operation/operation.h, and what it MEANS (order, shapes, counts) is
// core/graph/graph.h, which validates it.
// Plain values, copied freely.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/operation/operation.h"

namespace millrace {

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
