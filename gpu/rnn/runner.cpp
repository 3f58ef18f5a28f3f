#include "gpu/rnn/runner.h"

#include <algorithm>
#include <cstdio>

#include "gpu/rnn/selection.h"

namespace millrace::rnn {
namespace {

// Titan V, from GRNN's Table 1; see the header.
constexpr double kOwnMicrosecondsPerCost = 0.0105;
constexpr double kLaunchesOfOneSample = 9.6;
constexpr double kLaunchesOfSeveral = 17.9;
constexpr double kMicrosecondsPerMegabyte = 1.13;
constexpr double kMicrosecondsPerMillionProducts = 0.575;
constexpr double kMatrixUnitsSpeedUp = 8;

std::string microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f us", 1e6 * seconds);
  return text;
}

// The cheapest layouts of forward and, when training, backward; nothing when one has none.
std::optional<double> own_cost(const Machine& machine, const RnnShape& shape, const Gpu& constants, std::string& why) {
  double cost = 0;
  for (const bool backward : {false, true}) {
    if (backward && !shape.training) continue;
    std::optional<double> least;
    for (int sides = shape.sides(); sides >= 1 && !least; --sides) {
      const Problem problem{shape.recurrence, backward, shape.precision, shape.hidden, shape.batch, sides};
      const std::vector<Layout> ranked = ranked_layouts(machine.kernels(), machine.limits(), problem, constants);
      if (!ranked.empty())
        least = ranked.front().cost * shape.sides() / sides;  // sides that do not fit together run one after the other
      else
        why = why_not(machine.limits(), problem);
    }
    if (!least) return std::nullopt;
    cost += *least;
  }
  return cost;
}

}  // namespace

Runner own_kernels(const std::string& reason) {
  Runner runner;
  runner.reason = reason;
  return runner;
}

std::string name_of(const Runner& runner) {
  return (runner.is_library() ? "library's \"" + runner.algorithm + "\"" : std::string("own kernels")) + ": " + runner.reason;
}

double own_step_by_rule(double cost) { return kOwnMicrosecondsPerCost * cost; }

double library_step_by_rule(const RnnShape& shape) {
  const double weights = 1e-6 * shape.gates() * shape.hidden * shape.state();
  const bool matrix_units = shape.precision != Precision::kFloat;
  const double step = (shape.batch == 1 ? kLaunchesOfOneSample : kLaunchesOfSeveral) +
                      kMicrosecondsPerMegabyte * weights * bytes_of(shape.precision) +
                      kMicrosecondsPerMillionProducts * weights * shape.batch / (matrix_units ? kMatrixUnitsSpeedUp : 1);
  return step * shape.sides() * (shape.training ? 2 : 1);
}

Runner runner_by_rule(Machine& machine, const RnnShape& shape, const Gpu& constants) {
  std::string why;
  const std::optional<double> cost = own_cost(machine, shape, constants, why);
  if (cost) {
    const double own = own_step_by_rule(*cost);
    const double plain = library_step_by_rule(shape);
    char text[160];
    std::snprintf(text, sizeof(text), "by rule, not measured: %.1f us per step for ours and %.1f for a plain library's, on GRNN's GPU", own,
                  plain);
    why = text;
    if (own <= plain) return own_kernels(why);
  } else {
    why = "by rule, not measured: " + why;
  }
  try {
    Library* const library = machine.dnn_library();
    if (library == nullptr) return own_kernels(why + "; there is no library to run it instead");
    Runner runner = own_kernels(why);
    runner.algorithm = library->algorithms().front();
    return runner;
  } catch (const RnnError& error) {
    return own_kernels(why + "; " + error.what());
  }
}

Runner choose_runner(Machine& machine, const RnnShape& shape, SelectionFile* file, const std::function<double()>& own_seconds,
                     const std::function<double(const std::string&)>& dnn_library_seconds) {
  Library* const library = machine.dnn_library();
  if (library == nullptr) return own_kernels("there is no library to compare with");
  const std::vector<std::string> algorithms = library->algorithms();
  if (file != nullptr) {
    const std::optional<Runner> known = file->find_runner(machine.name(), library->name(), shape);
    if (known && (!known->is_library() || std::find(algorithms.begin(), algorithms.end(), known->algorithm) != algorithms.end()))
      return *known;
  }
  std::string refusals;
  const auto measured = [&](const std::string& what, const auto& measure) {
    try {
      return measure();
    } catch (const RnnError& error) {
      refusals += "; " + what + ": " + error.what();
      return 0.0;
    }
  };
  Runner runner;
  runner.own_seconds = measured("our kernels", own_seconds);
  std::string best;
  for (const std::string& algorithm : algorithms) {
    const double seconds = measured(algorithm, [&] { return dnn_library_seconds(algorithm); });
    if (seconds <= 0 || (runner.dnn_library_seconds > 0 && seconds >= runner.dnn_library_seconds)) continue;
    runner.dnn_library_seconds = seconds;
    best = algorithm;
  }
  if (best.empty() || (runner.own_seconds > 0 && runner.own_seconds <= runner.dnn_library_seconds)) {
    runner.reason = best.empty() ? "the library runs no such layer" + refusals
                                 : "measured: " + microseconds(runner.own_seconds) + " for ours, " +
                                       microseconds(runner.dnn_library_seconds) + " for " + library->name() + "'s best, \"" + best + "\"";
  } else {
    runner.algorithm = best;
    runner.reason = "measured: " + microseconds(runner.dnn_library_seconds) + " for " + library->name() + "'s \"" + best + "\", " +
                    (runner.own_seconds > 0 ? microseconds(runner.own_seconds) + " for ours" : "ours cannot run it" + refusals);
  }
  if (file != nullptr && (runner.own_seconds > 0 || runner.dnn_library_seconds > 0))
    file->store_runner(machine.name(), library->name(), shape, runner);
  return runner;
}

}  // namespace millrace::rnn
