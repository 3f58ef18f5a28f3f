#include "core/exchange/keras_weights.h"

#include <fmt/format.h>

#include <cctype>

#include "core/base/error.h"

namespace millrace {

std::string snake_case(const std::string& class_name) {
  const auto upper = [&](size_t i) { return i < class_name.size() && std::isupper(static_cast<unsigned char>(class_name[i])) != 0; };
  const auto lower = [&](size_t i) { return i < class_name.size() && std::islower(static_cast<unsigned char>(class_name[i])) != 0; };
  std::string result;
  for (size_t i = 0; i < class_name.size(); ++i) {
    const bool begins_word = i > 0 && upper(i) && (lower(i + 1) || lower(i - 1));
    if (begins_word) result += '_';
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(class_name[i])));
  }
  return result;
}

std::vector<KerasTensor> KerasWeights::of_layer(const KerasPlace& place) const {
  std::vector<KerasTensor> tensors;
  if (!by_class_) {
    const std::string group = (base_ == "/" ? "" : base_) + "/" + place.name;
    if (!file_.has(group))
      fail(ErrorCode::kMismatch, "layer \"{}\": the weights have no group {}; they belong to another model", place.name, group);
    const std::optional<std::vector<std::string>> names = file_.texts(group, "weight_names");
    if (!names) fail(ErrorCode::kMalformed, "layer \"{}\": group {} does not list its weights (weight_names)", place.name, group);
    for (const std::string& name : *names) tensors.push_back({name, file_.array(group + "/" + name)});
    return tensors;
  }
  const std::string group =
      fmt::format("{}/{}{}", base_, snake_case(place.class_name), place.number == 0 ? "" : fmt::format("_{}", place.number));
  if (!file_.has(group))
    fail(ErrorCode::kMismatch, "layer \"{}\": the weights have no group {}; they belong to another model", place.name, group);
  for (const char* const inner : {"vars", "cell/vars", "layer/vars", "forward_layer/cell/vars", "backward_layer/cell/vars"}) {
    const std::string vars = group + "/" + inner;
    for (int64_t i = 0;; ++i) {
      const std::string path = fmt::format("{}/{}", vars, i);
      if (!file_.has(path)) break;
      tensors.push_back({path.substr(1), file_.array(path)});
    }
  }
  return tensors;
}

}  // namespace millrace
