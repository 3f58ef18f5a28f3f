#include "gpu/rnn/bench/outcome_json.h"

#include <algorithm>
#include <cmath>

namespace millrace::rnn {
namespace {

std::string json_of(const RnnShape& shape, const Comparison& comparison) {
  std::string text = ", \"difference\": " + finite(comparison.output) +
                     ", \"difference_tolerance\": " + finite(output_tolerance(shape.precision)) + ", \"gradient_errors\": {";
  for (std::size_t i = 0; i < comparison.gradients.size(); ++i)
    text += (i > 0 ? ", " : "") + quoted(comparison.gradients[i].first) + ": " + finite(comparison.gradients[i].second);
  text += "}";
  if (!comparison.worst_gradient.first.empty())
    text += ", \"worst_gradient\": " + quoted(comparison.worst_gradient.first) +
            ", \"worst_gradient_error\": " + finite(comparison.worst_gradient.second) +
            ", \"gradient_tolerance\": " + finite(gradient_tolerance(shape.precision, shape.recurrence));
  return text + ", \"correct\": " + (comparison.correct ? "true" : "false");
}

// `compared`: there was something to compare with.
std::string json_of(const RnnShape& shape, const Timed& timed, bool compared) {
  std::string text = "{\"what\": " + quoted(timed.what);
  if (!timed.refusal.empty()) return text + ", \"refused\": " + quoted(timed.refusal) + "}";
  text += ", \"microseconds\": " + finite(timed.microseconds);
  return text + (compared ? json_of(shape, timed.comparison) : "") + "}";
}

template <class Values, class Text>
std::string list_of(const Values& values, Text text) {
  std::string list = "[";
  for (const auto& value : values) list += (list.size() > 1 ? ", " : "") + text(value);
  return list + "]";
}

std::string json_of(const RecurrenceTimes& times) {
  if (!times.refusal.empty()) return "{\"refused\": " + quoted(times.refusal) + "}";
  std::string text = "{\"steps\": " + list_of(times.steps, [](int steps) { return std::to_string(steps); });
  const auto add = [&](const std::string& name, const std::vector<double>& microseconds) {
    if (microseconds.empty()) return;
    text += ", \"" + name + "_microseconds\": " + list_of(microseconds, finite) + ", \"" + name +
            "_microseconds_per_step\": " + finite(slope_of(times.steps, microseconds));
  };
  add("forward", times.forward);
  add("backward", times.backward);
  return text + "}";
}

// Of times by ours, over cases.
class Ratios {
 public:
  void add(double ratio) {
    if (ratio <= 0) return;  // nothing to compare with
    logarithms_ += std::log(ratio);
    worst_ = count_ == 0 ? ratio : std::fmin(worst_, ratio);
    ++count_;
  }
  double mean() const { return count_ > 0 ? std::exp(logarithms_ / count_) : 0; }  // geometric
  double worst() const { return worst_; }

 private:
  double logarithms_ = 0;
  double worst_ = 0;
  int count_ = 0;
};

bool contains(const std::string& line, const std::string& part) { return line.find(part) != std::string::npos; }

}  // namespace

double slope_of(const std::vector<int>& steps, const std::vector<double>& microseconds) {
  if (steps.size() < 2 || steps.size() != microseconds.size() || steps.front() == steps.back()) return NAN;
  return (microseconds.back() - microseconds.front()) / (steps.back() - steps.front());
}

std::string fields_of(const Outcome& o) {
  const RnnShape& s = o.one.shape;
  return "\"group\": " + quoted(o.one.group) + ", \"recurrence\": " + quoted(std::string(name_of(s.recurrence))) +
         ", \"precision\": " + quoted(std::string(name_of(s.precision))) + ", \"hidden\": " + std::to_string(s.hidden) +
         ", \"batch\": " + std::to_string(s.batch) + ", \"steps\": " + std::to_string(s.steps) +
         ", \"layers\": " + std::to_string(o.one.layers) + ", \"training\": " + (s.training ? "true" : "false") +
         ", \"layout\": " + quoted(o.layout) + ", \"passed_over\": " + list_of(o.passed_over, quoted) +
         ", \"ours\": " + json_of(s, o.ours, o.compared) +
         (o.recurrence.steps.empty() && o.recurrence.refusal.empty() ? "" : ", \"recurrence_alone\": " + json_of(o.recurrence)) +
         ", \"peers\": " + list_of(o.peers, [&](const Timed& peer) { return json_of(s, peer, o.compared); }) +
         ", \"runner\": " + quoted(o.runner.is_library() ? o.runner.algorithm : "own kernels") + ", \"why\": " + quoted(o.runner.reason) +
         ", \"chosen\": " + json_of(s, o.chosen, o.compared) + ", \"compared\": " + (o.compared ? "true" : "false") +
         ", \"right\": " + (o.ours.refusal.empty() && (!o.compared || o.correct) ? "true" : "false") +
         ", \"ratio_to_best_peer\": " + finite(o.ratio) + ", \"chosen_ratio_to_best_peer\": " + finite(o.chosen_ratio);
}

Summary summary_of(const ResultFile& file) {
  Ratios ours;
  Ratios chosen;
  Summary summary;
  for (const std::string& line : file.lines()) {
    ++summary.cases;
    if (!contains(line, "\"right\": true")) ++summary.wrong;
    if (!contains(line, "\"group\": \"grid\"") || number_in(line, "batch").value_or(0) > 20) continue;
    ours.add(number_in(line, "ratio_to_best_peer").value_or(0));
    chosen.add(number_in(line, "chosen_ratio_to_best_peer").value_or(0));
  }
  summary.mean = chosen.mean();
  summary.worst = chosen.worst();
  summary.own_mean = ours.mean();
  summary.own_worst = ours.worst();
  return summary;
}

Fields fields_of(const Summary& s) {
  return {{"geometric_mean_ratio", finite(s.mean)},
          {"worst_ratio", finite(s.worst)},
          {"own_geometric_mean_ratio", finite(s.own_mean)},
          {"own_worst_ratio", finite(s.own_worst)},
          {"wrong", std::to_string(s.wrong)}};
}

}  // namespace millrace::rnn
