// One layer of a Keras configuration, read strictly, and what it becomes. Internal to core/exchange.
//
//   KerasLayer layer(document, /*number=*/0);
//   convert_keras_layer(layer, inputs, net, weights);         // -> the value it makes
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/exchange/keras_weights.h"
#include "core/exchange/network_writer.h"

namespace millrace {

struct KerasValue {
  NetworkValue value;
  // Behind a Flatten: what was flattened, in Keras's order rows, columns, channels. The next Dense permutes its kernel.
  std::optional<Shape> flattened;
  bool is_scores = false;  // behind a softmax: nothing may follow
};

class KerasLayer {
 public:
  KerasLayer(const nlohmann::json& document, int64_t number);

  const std::string& name() const { return name_; }
  const std::string& class_name() const { return class_name_; }
  KerasPlace place() const { return {name_, class_name_, number_}; }
  std::string who() const { return fmt::format("layer \"{}\" ({})", name_, class_name_); }

  // Settings of its configuration; a missing one is `otherwise`.
  const nlohmann::json* find(const char* setting) const;
  bool flag(const char* setting, bool otherwise) const;
  int64_t whole(const char* setting, int64_t otherwise) const;
  double number(const char* setting, double otherwise) const;
  std::string word(const char* setting, const std::string& otherwise) const;
  // A whole number for each of `axes`: a list, or one for all.
  std::vector<int64_t> wholes(const char* setting, size_t axes, int64_t otherwise) const;
  // The wrapped layer of Bidirectional and TimeDistributed.
  KerasLayer inner() const;

  template <typename... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    fail(ErrorCode::kUsage, "{}: {}", who(), fmt::vformat(format, fmt::make_format_args(arguments...)));
  }

 private:
  const nlohmann::json* config_ = nullptr;
  std::string name_, class_name_;
  int64_t number_ = 0;
};

struct KerasContext {
  NetworkWriter& net;
  const KerasWeights& weights;
  int version;  // 2 or 3, of the Keras that wrote the file
  bool dropout_said = false;
};

KerasValue convert_keras_layer(const KerasLayer& layer, const std::vector<KerasValue>& inputs, KerasContext& context);
// The recurrent ones; `bidirectional` around it or not.
KerasValue convert_keras_recurrent(const KerasLayer& layer, const KerasLayer& cell, bool bidirectional, const KerasValue& input,
                                   KerasContext& context);
// Exactly so many tensors, whatever their shapes.
std::vector<KerasTensor> keras_tensors(const KerasLayer& layer, size_t count, const KerasContext& context);
bool is_keras_recurrent(const std::string& class_name);

}  // namespace millrace
