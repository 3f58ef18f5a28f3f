#include "fpga/calibration/format_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/formats_file.h"
#include "fpga/recurrence/arithmetic/gate_function.h"

namespace millrace {

namespace {

constexpr int kAccumulatorRoom = 31;  // bits beside the sign
// Finer makes no sense: single precision, from which numbers come, has 24.
constexpr int kFinest = 24;
constexpr int kLeastOfState = 11;   // fraction bits of a recurrent layer's weights of h, before h loses some of its own
constexpr double kLeastReach = 16;  // of a gate's accumulator: twice what gates tell apart, for weights grow
constexpr double kAlmostOne = 0.9999;

bool bounds_state(const Recurrent& cell) { return cell.cell != CellKind::kVanillaRelu && cell.projection == 0; }

// What numbers between two layers that multiply have in common.
struct Shared {
  double activation = 0;
  double error = 0;
  int activation_bits = 0;
  int error_bits = 0;
};

struct Multiplier {
  const Node* node;
  bool recurrent;
  size_t in, out;  // whose format its inputs and its output have
  LayerRanges ranges;
  int weight_bits;
};

class Choice {
 public:
  Choice(const Graph& graph, const NumberRanges& ranges, double error_scale, const FormatHeadroom& headroom)
      : graph_(graph), own_(default_formats(error_scale)), headroom_(headroom), parent_(graph.nodes().size() + 1) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (multiplies(node) || reads_tokens(node) || is_loss(node)) continue;
      for (const int64_t input : node.inputs) parent_[root(place(input))] = root(i + 1);
    }
    shared_.resize(parent_.size());
    for (size_t i = 0; i < graph.nodes().size(); ++i) enter(i, ranges);
    start();
    while (settle()) continue;
  }

  LayerFormats formats() const {
    LayerFormats all;
    auto multiplier = multipliers_.begin();
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (is_loss(node)) continue;
      const Shared& out = shared_[root(i + 1)];
      const Shared& in = node.inputs.empty() ? out : shared_[root(place(node.inputs[0]))];
      const int weight = multiplies(node) ? (multiplier++)->weight_bits : own_.weight.fraction_bits;
      all[node.layer.name] = {.activation = {in.activation_bits},
                              .weight = {weight},
                              .sum = {out.activation_bits},
                              .error = {out.error_bits},
                              .input_error = {in.error_bits}};
    }
    return all;
  }

 private:
  static bool is_loss(const Node& node) { return role_of(node.layer.operation) == Role::kLoss; }
  static bool is_recurrent(const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; }
  // Numbers of words, which no format is for.
  static bool reads_tokens(const Node& node) { return traits_of(node.layer.operation).reads_tokens; }
  static bool multiplies(const Node& node) { return node.divides || is_recurrent(node); }
  static size_t place(int64_t node) { return to_size(node + 1); }  // the network's input is at 0
  size_t root(size_t at) const {
    while (parent_[at] != at) at = parent_[at];
    return at;
  }

  void enter(size_t index, const NumberRanges& ranges) {
    const Node& node = graph_.nodes()[index];
    const auto found = ranges.find(node.layer.name);
    const LayerRanges seen = found == ranges.end() ? LayerRanges{} : found->second;
    if (!reads_tokens(node)) enter_inputs(node, seen);
    if (is_loss(node)) return;
    Shared& out = shared_[root(index + 1)];
    if (is_recurrent(node)) {
      // What a tangent bounds never passes 1.
      const bool bounded = bounds_state(std::get<Recurrent>(node.layer.operation));
      out.activation = std::max(out.activation, bounded ? std::min(seen.output, kAlmostOne / headroom_.activation) : seen.output);
    } else {
      out.activation = std::max({out.activation, seen.output, seen.sum, node.divides ? seen.bias : 0});
    }
    out.error = std::max(out.error, seen.output_error);
    if (multiplies(node)) multipliers_.push_back({&node, is_recurrent(node), root(place(node.inputs[0])), root(index + 1), seen, 0});
  }

  void enter_inputs(const Node& node, const LayerRanges& seen) {
    for (const int64_t input : node.inputs) {
      Shared& in = shared_[root(place(input))];
      in.activation = std::max(in.activation, seen.input);
      in.error = std::max(in.error, seen.input_error);
    }
  }

  static int finest_for(double largest, FixedFormat otherwise) {
    return largest > 0 ? std::min(format_that_holds(largest).fraction_bits, kFinest) : otherwise.fraction_bits;
  }
  void start() {
    for (Shared& shared : shared_) {
      shared.activation_bits = finest_for(headroom_.activation * shared.activation, own_.activation);
      shared.error_bits = finest_for(headroom_.error * shared.error, own_.error);
    }
    for (Multiplier& one : multipliers_) one.weight_bits = finest_for(headroom_.weight * one.ranges.weight, own_.weight);
  }

  // Fraction bits that an accumulator may have for numbers up to `largest`.
  static int room_for(double largest) {
    return largest > 0 && std::isfinite(largest) ? kAccumulatorRoom - static_cast<int>(std::ceil(std::log2(largest))) : 2 * kFinest;
  }
  // Takes what is too much from `first` as far as it goes, then from `second`.
  static bool lower(int excess, int& first, int& second) {
    if (excess <= 0) return false;
    const int from_first = std::min(excess, first);
    const int from_second = std::min(excess - from_first, second);
    first -= from_first;
    second -= from_second;
    return from_first + from_second > 0;
  }

  // One round; false when nothing had to change. Bits only ever become fewer, so rounds end.
  bool settle() {
    bool changed = false;
    for (Multiplier& one : multipliers_) {
      Shared& in = shared_[one.in];
      Shared& out = shared_[one.out];
      int none = 0;
      int& weight = one.weight_bits;
      if (one.recurrent) {
        changed |= settle_recurrent(one, in, out);
        continue;
      }
      changed |= lower(in.activation_bits + weight - room_for(headroom_.activation * one.ranges.sum), weight, in.activation_bits);
      changed |= lower(out.error_bits + weight - room_for(headroom_.error * one.ranges.input_error), weight, out.error_bits);
      changed |=
          lower(in.activation_bits + out.error_bits - room_for(headroom_.error * one.ranges.gradient), out.error_bits, in.activation_bits);
      changed |= lower(out.error_bits - room_for(headroom_.error * one.ranges.bias_gradient), out.error_bits, none);
      changed |= lower(out.activation_bits - (in.activation_bits + weight), out.activation_bits, none);
      changed |= lower(in.error_bits - (out.error_bits + weight), in.error_bits, none);
      changed |= lower(in.activation_bits + weight - out.activation_bits - kMostShift, weight, in.activation_bits);
      changed |= lower(out.error_bits + weight - in.error_bits - kMostShift, weight, out.error_bits);
    }
    return changed;
  }

  // Both products meet in one accumulator, so that the state's weights have the fraction bits that h leaves of it. Errors go back on the
  // host.
  bool settle_recurrent(Multiplier& one, Shared& in, Shared& out) const {
    int none = 0;
    int& weight = one.weight_bits;
    const int of_state = finest_for(headroom_.weight * one.ranges.hidden_weight, own_.weight);
    bool changed = lower(out.activation_bits - kGateFraction, out.activation_bits, none);
    changed |= lower(in.activation_bits + weight - room_for(std::max(headroom_.activation * one.ranges.sum, kLeastReach)), weight,
                     in.activation_bits);
    changed |= lower(in.activation_bits + weight - out.activation_bits - of_state, weight, in.activation_bits);
    changed |= lower(kLeastOfState - (in.activation_bits + weight - out.activation_bits), out.activation_bits, none);
    return changed;
  }

  const Graph& graph_;
  EngineFormats own_;
  FormatHeadroom headroom_;
  std::vector<size_t> parent_;
  std::vector<Shared> shared_;  // at roots
  std::vector<Multiplier> multipliers_;
};

}  // namespace

LayerFormats chosen_formats(const Graph& graph, const NumberRanges& ranges, double error_scale, const FormatHeadroom& headroom) {
  return Choice(graph, ranges, error_scale, headroom).formats();
}

}  // namespace millrace
