#include "partitioner/study/study_sweep.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace {
namespace {

constexpr size_t kMostColumns = 64;

template <typename Text>
bool differ(const StudySweep& sweep, const Text& text) {
  const auto first = text(sweep.curves.front().task);
  return std::any_of(sweep.curves.begin(), sweep.curves.end(), [&](const StudyCurve& curve) { return text(curve.task) != first; });
}

}  // namespace

std::string link_text(const LinkEntry& link) {
  if (link.shared_gbps > 0) return fmt::format("{:.6g} Gb/s, both directions together", link.shared_gbps);
  if (link.forward_gbps == link.backward_gbps) return fmt::format("{:.6g} Gb/s each way", link.forward_gbps);
  return fmt::format("{:.6g} Gb/s forward and {:.6g} back", link.forward_gbps, link.backward_gbps);
}

std::string curve_name(const StudySweep& sweep, size_t curve) {
  std::vector<std::string> parts;
  const auto add = [&](const auto& text) {
    if (differ(sweep, text)) parts.push_back(text(sweep.curves[curve].task));
  };
  add([](const StudyTask& task) { return std::string(name_of(task.options.strategy)); });
  add([](const StudyTask& task) { return std::string(name_of(task.options.alignment)); });
  add([](const StudyTask& task) { return fmt::format("{} bits", bits_of(task.options.arithmetic.wire)); });
  add([](const StudyTask& task) {
    return task.link.shared_gbps > 0 ? fmt::format("{:.6g} Gb/s both", task.link.shared_gbps)
                                     : fmt::format("{:.6g} Gb/s", std::min(task.link.forward_gbps, task.link.backward_gbps));
  });
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool simulates(const StudySweep& sweep) {
  return std::any_of(sweep.curves.begin(), sweep.curves.end(), [](const StudyCurve& curve) {
    return std::any_of(curve.study.points.begin(), curve.study.points.end(),
                       [](const StudyPoint& point) { return point.simulated.has_value(); });
  });
}

const StudyPoint* ring_to_show(const StudySweep& sweep) {
  const StudyPoint* shown = nullptr;
  for (const StudyPoint& point : sweep.curves.front().study.points)
    if (point.feasible && (shown == nullptr || point.device_busy.size() <= kMostColumns)) shown = &point;
  return shown;
}

}  // namespace millrace
