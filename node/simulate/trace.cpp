#include "node/simulate/trace.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "core/base/index.h"

namespace millrace {
namespace {

std::string_view phase_of(const TraceSpan& span) { return name_of(static_cast<Phase>(span.phase)); }

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace); }

// Threads of a process: engines by shard and phase; one for a device that takes turns.
int64_t thread_of(const TraceSpan& span) { return span.shard < 0 ? 0 : 1 + 3 * int64_t{span.shard} + span.phase; }

std::string thread_name(const Plan& plan, const TraceSpan& span) {
  if (span.shard < 0) return "schedule";
  return fmt::format("{} {}", item(plan.shards, span.shard).layer, phase_of(span));
}

// Places of one card say which.
std::string place_name(const Plan& plan, size_t device) {
  const DeviceEntry& entry = plan.cluster.devices[device];
  return fmt::format("{} {}{}", device, entry.name, entry.seat.empty() ? "" : " on " + entry.seat);
}

}  // namespace

std::string trace_json(const Plan& plan, const SimulationResult& result) {
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"origin\":\"simulated\"}},\"traceEvents\":[");
  const char* between = "\n";
  for (size_t d = 0; d < plan.cluster.devices.size(); ++d) {
    fmt::format_to(out, "{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}", between, d,
                   quoted(place_name(plan, d)));
    between = ",\n";
  }
  std::set<std::pair<int32_t, int64_t>> named;
  for (const TraceSpan& span : result.trace) {
    const int64_t thread = thread_of(span);
    if (named.insert({span.device, thread}).second)
      fmt::format_to(out, "{}{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}", between,
                     span.device, thread, quoted(thread_name(plan, span)));
    const std::string name = fmt::format("{}{}{}", span.shard < 0 ? fmt::format("{} ", phase_of(span)) : "", span.cycle,
                                         span.chunk < 0 ? "" : fmt::format(".{}", span.chunk));
    fmt::format_to(out, "{}{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":{},\"cat\":\"{}\",\"ts\":{:.6f},\"dur\":{:.6f}}}", between,
                   span.device, thread, quoted(name), phase_of(span), 1e-6 * static_cast<double>(span.start),
                   1e-6 * static_cast<double>(span.end - span.start));
  }
  fmt::format_to(out, "\n]}}\n");
  return fmt::to_string(text);
}

}  // namespace millrace
