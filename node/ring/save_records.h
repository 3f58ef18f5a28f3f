// What a checkpoint is made of, as it travels from the devices to rank 0: each updatable's share as a string of bytes.
//
//   SaveWriter writer(ElementType::kFloat32);
//   writer.slice(SaveKind::kWeights, "conv1.weight", slice, values);        // on the device
//   SaveAssembler assembler(plan, graph);
//   assembler.add(writer.bytes());                                          // on rank 0, in any order
//   CheckpointContent content;
//   assembler.move_into(content);                                           // fails when anything is missing
//
// Types are those of the device that computed. Plain bytes of one machine's order: they never reach a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/kernel_spec.h"
#include "core/train/checkpoint.h"
#include "node/ring/shard_vector.h"

namespace millrace {

enum class SaveKind : uint8_t { kWeights, kOptimizer, kPrevious };

class SaveWriter {
 public:
  explicit SaveWriter(ElementType type) : wide_(type == ElementType::kFloat64) {}

  // The part of a full tensor that a step holds.
  void slice(SaveKind kind, const std::string& name, const ParameterSlice& slice, std::span<const double> values);
  // The elements of Plan::homes[home].
  void piece(SaveKind kind, const std::string& name, std::span<const int64_t> dimensions, size_t home, std::span<const double> values);
  void whole(SaveKind kind, const std::string& name, std::span<const int64_t> dimensions, std::span<const double> values);

  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <typename T>
  void put(const T& value);
  void head(SaveKind kind, const std::string& name, std::span<const int64_t> dimensions, int64_t home, const ParameterSlice* slice,
            size_t elements);
  void numbers(std::span<const double> values);

  bool wide_;
  std::vector<std::byte> bytes_;
};

class SaveAssembler {
 public:
  SaveAssembler(const Plan& plan, const Graph& graph) : plan_(plan), graph_(graph) {}

  void add(std::span<const std::byte> bytes);
  // Weights, optimizer and previous weights.
  void move_into(CheckpointContent& content);

 private:
  struct Part {
    std::vector<int64_t> dimensions;
    std::vector<double> full;
    int64_t covered = 0;
  };
  void finish(SaveKind kind, const std::string& name, Part& part, bool wide);

  const Plan& plan_;
  const Graph& graph_;
  std::map<std::pair<SaveKind, std::string>, Part> open_;
  std::map<SaveKind, TensorMap> done_;
};

}  // namespace millrace
