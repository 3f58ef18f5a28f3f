// The golden dumps that make_golden.py wrote with PyTorch: what they hold is explained at its top.
//
//   const GoldenFile golden("network_lenet_small");
//   const Graph graph(golden.model());
//   std::vector<double> expected = golden.values("conv1.weight.gradient");
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/model.h"
#include "core/train/safetensors.h"
#include "tests/source_folder.h"

namespace millrace::testing {

inline std::filesystem::path golden_folder() { return std::filesystem::path(MILLRACE_SOURCE_DIR) / "tests/golden/data"; }

// "op_", "network_" or "optimizer_": the names of all files of that kind, sorted.
inline std::vector<std::string> golden_names(std::string_view prefix) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder()))
    if (entry.path().stem().string().starts_with(prefix)) names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name) : name_(name), file_(load_safetensors(golden_folder() / (name + ".safetensors"))) {}

  Model model() const { return parse_model(file_.metadata.at("model"), name_); }
  bool training() const { return file_.metadata.at("training") == "1"; }
  const TensorMap& tensors() const { return file_.tensors; }

  bool has(const std::string& tensor) const { return file_.tensors.contains(tensor); }
  int64_t batch() const { return tensor_of("input").dimensions.at(0); }
  std::vector<double> values(const std::string& tensor) const {
    const HostTensor& stored = tensor_of(tensor);
    std::vector<double> values(static_cast<size_t>(stored.elements()));
    copy_values(stored, std::span<double>(values), tensor);
    return values;
  }
  // Row `index` of a tensor whose first dimension counts steps.
  std::vector<double> values_at(const std::string& tensor, int64_t index) const {
    return row_of(values(tensor), tensor_of(tensor).dimensions.at(0), index);
  }
  std::vector<int32_t> labels() const { return integers("labels"); }
  // Empty where every sample fills the tensor.
  std::vector<int32_t> lengths() const { return has("lengths") ? integers("lengths") : std::vector<int32_t>{}; }
  std::vector<int32_t> labels_at(int64_t index) const { return row_of(labels(), tensor_of("labels").dimensions.at(0), index); }

  std::string setting(const std::string& key) const { return file_.metadata.at(key); }
  double number(const std::string& key, double otherwise) const {
    const auto found = file_.metadata.find(key);
    return found == file_.metadata.end() ? otherwise : std::stod(found->second);
  }

 private:
  std::vector<int32_t> integers(const std::string& tensor) const {
    const HostTensor& stored = tensor_of(tensor);
    std::vector<int32_t> values(static_cast<size_t>(stored.elements()));
    std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
    return values;
  }
  const HostTensor& tensor_of(const std::string& tensor) const { return file_.tensors.at(tensor); }

  template <typename T>
  static std::vector<T> row_of(const std::vector<T>& values, int64_t rows, int64_t index) {
    const auto size = static_cast<std::ptrdiff_t>(values.size()) / rows;
    return {values.begin() + index * size, values.begin() + (index + 1) * size};
  }

  std::string name_;
  SafetensorsFile file_;
};

}  // namespace millrace::testing
