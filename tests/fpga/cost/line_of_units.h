// A model as a line of the units that a cut can fall between: channel pairs of layers divided by input channels, outputs of
// those divided by output channels (the first convolution, as FPDeep has it), groups of a grouped convolution, and one of
// what stays whole. Each unit is worth its layer's MACs per unit.
//
//   const LineOfUnits line(graph);
//   line.for_each_shard(0, line.end() / 2, period, slots, [&](const ShardQuestion& question) { ... });
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/device/cost_model.h"
#include "core/graph/graph.h"
#include "core/plan/cuts.h"

namespace millrace::testing_support {

class LineOfUnits {
 public:
  explicit LineOfUnits(const Graph& graph) {
    int64_t begin = 0;
    for (size_t g = 0; g < graph.groups().size(); ++g) {
      Part part;
      part.head = &graph.node(graph.groups()[g].head);
      for (const int64_t node : graph.groups()[g].after) part.after.push_back(&graph.node(node));
      part.extent = extent_of(graph, static_cast<int64_t>(g));
      part.split = g == 0 ? Split::kOutputChannels : Split::kInputChannels;
      part.begin = begin;
      part.units = units_of(part, g == 0);
      part.macs_per_unit = static_cast<double>(part.head->work.forward_macs) / static_cast<double>(part.units);
      begin += part.units;
      parts_.push_back(std::move(part));
    }
    find_lifetimes();
  }

  int64_t end() const { return parts_.back().begin + parts_.back().units; }
  size_t groups() const { return parts_.size(); }
  const Node& head(size_t group) const { return *parts_[group].head; }
  int64_t begin_of(size_t group) const { return parts_[group].begin; }
  int64_t end_of(size_t group) const { return parts_[group].begin + parts_[group].units; }
  double lifetime(size_t group) const { return parts_[group].lifetime; }

  // The position with so many forward MACs before it, to the nearest unit.
  int64_t position_after(double macs) const {
    for (const Part& part : parts_) {
      const double all = part.macs_per_unit * static_cast<double>(part.units);
      if (macs <= all) return part.begin + (all > 0 ? std::llround(macs / part.macs_per_unit) : 0);
      macs -= all;
    }
    return end();
  }
  double macs() const {
    double sum = 0;
    for (const Part& part : parts_) sum += part.macs_per_unit * static_cast<double>(part.units);
    return sum;
  }

  // Calls use(question) for every shard of a segment.
  template <typename Use>
  void for_each_shard(int64_t from, int64_t to, double period, int slots, Use use) const {
    for (const Part& part : parts_) {
      const int64_t begin = std::max(from, part.begin);
      const int64_t end = std::min(to, part.begin + part.units);
      if (begin >= end) continue;
      const BlockList blocks = blocks_between(part.extent, part.split, place(part, begin), place(part, end));
      ShardQuestion question;
      question.node = part.head;
      if (divisible(*part.head)) question.blocks = blocks;
      question.owner = end == part.begin + part.units;
      if (question.owner) question.after = part.after;
      question.lifetime = part.lifetime;
      question.period_seconds = period;
      question.optimizer_slots = slots;
      use(question);
    }
  }

 private:
  struct Part {
    const Node* head = nullptr;
    std::vector<const Node*> after;
    LayerExtent extent;
    Split split = Split::kInputChannels;
    int64_t begin = 0;
    int64_t units = 1;
    double macs_per_unit = 0;
    double lifetime = 0;
  };

  static bool divisible(const Node& node) {
    return std::holds_alternative<Conv2d>(node.layer.operation) || std::holds_alternative<Dense>(node.layer.operation);
  }

  static int64_t units_of(const Part& part, bool first) {
    if (!divisible(*part.head)) return 1;
    if (part.extent.conv_groups > 1) return part.extent.conv_groups;
    return first ? part.extent.outputs : part.extent.inputs * part.extent.outputs;
  }

  static CutPlace place(const Part& part, int64_t position) {
    const int64_t units = position - part.begin;
    if (part.extent.conv_groups > 1) return {units * (part.extent.outputs / part.extent.conv_groups), 0};
    if (part.split == Split::kOutputChannels) return {units, 0};
    return {units / part.extent.outputs, units % part.extent.outputs};
  }

  // In image periods, of a pipeline of rows without a barrier: the rows that a layer waits for and keeps others waiting.
  void find_lifetimes() {
    double following = 0;
    for (size_t g = parts_.size(); g-- > 0;) {
      const auto* conv = std::get_if<Conv2d>(&parts_[g].head->layer.operation);
      for (const Node* after : parts_[g].after)
        if (const auto* pool = std::get_if<Pool2d>(&after->layer.operation))
          following += static_cast<double>(pool->kernel_h - 1) / static_cast<double>(after->input_shapes[0].height);
      if (conv != nullptr)
        following += static_cast<double>(conv->kernel_h - 1) / static_cast<double>(parts_[g].head->input_shapes[0].height);
      parts_[g].lifetime = following;
    }
  }

  std::vector<Part> parts_;
};

}  // namespace millrace::testing_support
