#include "core/cpu/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/cpu/engine.h"
#include "core/cpu/trial.h"

namespace millrace {

using cpu::Trial;

namespace {

// A challenger's time must stay below this share of the direct one's.
constexpr double kClearWin = 0.9;
constexpr int kLeastRounds = 5;
constexpr double kSecondsPerPass = 0.25;

// A convolution of the network that is not the same as an earlier one.
struct Subject {
  const Node* node = nullptr;
  Conv2d conv;
};

std::vector<Subject> subjects_of(const Graph& graph) {
  std::vector<Subject> subjects;
  for (const Node& node : graph.nodes()) {
    const auto* conv = std::get_if<Conv2d>(&node.layer.operation);
    if (conv == nullptr) continue;
    const bool known = std::ranges::any_of(subjects, [&](const Subject& subject) {
      return subject.conv == *conv && subject.node->input_shapes[0] == node.input_shapes[0] &&
             subject.node->input_error_needed == node.input_error_needed;
    });
    if (!known) subjects.push_back({&node, *conv});
  }
  return subjects;
}

}  // namespace

KernelTable tune(const Graph& graph, int64_t micro_batch, int threads, const std::function<void(const TuneProgress&)>& progress) {
  if (micro_batch < 1) fail(ErrorCode::kUsage, "tune: micro-batch {}; give at least one", micro_batch);
  if (threads < 1) fail(ErrorCode::kUsage, "tune: {} threads; give at least one", threads);
  const std::string isa = cpu::Engine(threads, {}).isa;
  const std::vector<Subject> subjects = subjects_of(graph);
  KernelTable found;
  TuneProgress state{.done = 0, .total = static_cast<int64_t>(subjects.size() * kConvPhases.size()), .finding = {}};
  for (const auto& [node, conv] : subjects) {
    KernelSpec spec;
    spec.layer = node->layer.name;
    spec.operation = conv;
    spec.inputs = {node->input_shapes[0]};
    spec.output = node->output;
    spec.micro_batch = micro_batch;
    spec.bias = conv.bias;
    spec.activation = Activation{};
    spec.input_error_needed = node->input_error_needed;
    const auto key_of = [&](Phase phase) { return ConvKey{conv, node->input_shapes[0], phase, micro_batch, isa}; };

    std::vector<std::pair<ConvAlgorithm, std::unique_ptr<Trial>>> trials;
    for (const ConvAlgorithm algorithm : kConvAlgorithms) {
      KernelTable forced;
      for (const Phase phase : kConvPhases) forced.set(key_of(phase), algorithm);
      auto trial = std::make_unique<Trial>(cpu::make_device(threads, forced), spec);
      // An algorithm that does not exist for this shape falls back to the direct one.
      if (!trials.empty() && trial->implementation() == trials.front().second->implementation()) continue;
      trials.emplace_back(algorithm, std::move(trial));
    }
    std::array<double, std::size(kConvAlgorithms)> totals{};  // per trial, over the passes
    double best_mixture = 0;                                  // without the taps, which are all passes or none
    for (const Phase phase : kConvPhases) {
      ++state.done;
      if (trials.size() == 1 || (phase == Phase::kErrorBack && !node->input_error_needed)) continue;
      std::vector<double> fastest(trials.size(), std::numeric_limits<double>::infinity());
      double passed = 0;
      for (int round = -1; round < kLeastRounds || passed < kSecondsPerPass; ++round) {
        for (size_t t = 0; t < trials.size(); ++t) {
          const double seconds = trials[t].second->seconds_after_update(phase, threads);
          if (round < 0) continue;  // the first round fills caches
          fastest[t] = std::min(fastest[t], seconds);
          passed += seconds;
        }
      }
      size_t winner = 0;
      for (size_t t = 0; t < trials.size(); ++t) {
        totals[t] += fastest[t];
        if (trials[t].first == ConvAlgorithm::kWinograd && fastest[t] < kClearWin * fastest[0]) winner = t;
      }
      best_mixture += fastest[winner];
      found.set(key_of(phase), trials[winner].first);
      state.finding = fmt::format("{} {}:", node->layer.name, name_of(phase));
      for (size_t t = 0; t < trials.size(); ++t)
        state.finding += fmt::format("{} {} {:.3f} ms", t == 0 ? "" : ",", name_of(trials[t].first), 1e3 * fastest[t]);
      if (progress) progress(state);
    }
    for (size_t t = 0; t < trials.size(); ++t)
      if (trials[t].first == ConvAlgorithm::kTaps && totals[t] < kClearWin * best_mixture)
        for (const Phase phase : kConvPhases) found.set(key_of(phase), ConvAlgorithm::kTaps);
  }
  return found;
}

}  // namespace millrace
