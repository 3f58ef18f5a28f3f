#include "node/simulate/schedule_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "core/base/index.h"
#include "core/drawing/quantity.h"
#include "core/drawing/spans.h"
#include "core/plan/seats.h"

namespace millrace {
namespace {

constexpr std::array kPhases = {"FP", "EB", "PG"};
constexpr std::array kWords = {"forward", "errors back", "gradients"};
constexpr std::array kClasses = {"s0", "s3", "s4"};

// In order of time, device by device; what follows another of its place and phase at once is one with it.
std::vector<TraceSpan> spans_of(const Plan& plan, const SimulationResult& result) {
  const int64_t micro_batches = plan.micro_batches();
  int64_t last = -1;
  for (const TraceSpan& span : result.trace)
    if (span.phase == 2) last = std::max(last, (span.cycle + 1) / micro_batches - 1);
  std::vector<TraceSpan> spans;
  for (const TraceSpan& span : result.trace)
    if (last >= 0 && span.cycle / micro_batches == last && span.end > span.start) spans.push_back(span);
  std::ranges::sort(spans, {}, [](const TraceSpan& span) { return std::tuple{span.device, span.start, span.end}; });
  std::vector<TraceSpan> joined;
  for (const TraceSpan& span : spans) {
    const bool follows = !joined.empty() && joined.back().device == span.device && joined.back().phase == span.phase &&
                         joined.back().cycle == span.cycle && joined.back().end == span.start;
    if (!follows)
      joined.push_back(span);
    else
      joined.back().end = span.end;
  }
  return joined;
}

std::string layers_on(const Plan& plan, int64_t device) {
  std::string first, last;
  for (const Shard& shard : plan.shards) {
    if (shard.device != device) continue;
    (first.empty() ? first : last) = shard.layer;
  }
  return last.empty() || last == first ? first : fmt::format("{} .. {}", first, last);
}

}  // namespace

bool has_schedule_rows(const Plan& plan) {
  const std::vector<int64_t> seats = seats_of(plan.cluster);
  return *std::ranges::max_element(seats) < kMostScheduleRows;
}

bool shows_schedule(const Plan& plan, const SimulationResult& result) {
  if (!has_schedule_rows(plan) || std::ranges::any_of(result.trace, [](const TraceSpan& span) { return span.shard >= 0; })) return false;
  const size_t bars = spans_of(plan, result).size();
  return bars > 0 && bars <= kMostScheduleBars;
}

Figure schedule_figure(const Plan& plan, const SimulationResult& result) {
  const std::vector<TraceSpan> spans = spans_of(plan, result);
  const std::vector<int64_t> seats = seats_of(plan.cluster);
  int64_t begin = spans.front().start, end = 0;
  for (const TraceSpan& span : spans) {
    begin = std::min(begin, span.start);
    end = std::max(end, span.end);
  }
  const double seconds = 1e-12 * static_cast<double>(end - begin);
  const auto [divisor, unit] = seconds >= 1 ? std::pair(1.0, "s") : seconds >= 1e-3 ? std::pair(1e-3, "ms") : std::pair(1e-6, "\xC2\xB5s");
  const auto at = [&, scale = divisor](int64_t time) { return 1e-12 * static_cast<double>(time - begin) / scale; };

  const bool cards = folds(plan.cluster);
  SpanChart chart{.label = "Who works when, of one mini-batch", .x = {.label = unit, .least = 0, .most = at(end)}};
  chart.rows.resize(to_size(1 + *std::ranges::max_element(seats)));
  for (size_t d = seats.size(); d-- > 0;) {
    const DeviceEntry& device = plan.cluster.devices[d];
    item(chart.rows, seats[d]).name = cards ? device.seat : fmt::format("{} {}", d, device.name);
  }
  for (const TraceSpan& span : spans)
    item(chart.rows, seats[to_size(span.device)])
        .spans.push_back(
            {.from = at(span.start),
             .to = at(span.end),
             .classes = item(kClasses, span.phase),
             .tooltip = fmt::format("{} {}: {} of micro-batch {}, {}", span.device, layers_on(plan, span.device), item(kPhases, span.phase),
                                    span.cycle, duration(1e-12 * static_cast<double>(span.end - span.start)))});
  Figure figure{.title = cards ? "A mini-batch, card by card" : "A mini-batch, device by device",
                .note = fmt::format("simulated; {} from its first action to its last but the update", duration(seconds)),
                .drawing = draw(chart)};
  for (size_t phase = 0; phase < kPhases.size(); ++phase)
    figure.drawing.legend.push_back({.name = kWords[phase], .classes = {kClasses[phase]}});
  return figure;
}

}  // namespace millrace
