#include "transport/streams/flow_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/plan/flow_load.h"
#include "core/plan/parts.h"
#include "transport/streams/aligned_buffer.h"
#include "transport/streams/frame.h"
#include "transport/streams/settings.h"

namespace millrace {

namespace {

// The largest payload: room is left for a header and for rounding.
constexpr int64_t kMostBytes = int64_t{1} << 46;
constexpr int64_t kMostCredits = 1 << 20;

size_t message_bytes(const Plan& plan, const Flow& flow) {
  const int64_t per_message = elements_at_once(flow);
  const int64_t times = carries_parameters(flow) ? 1 : plan.micro_batch;
  const int64_t bytes_each = (bits_of(flow.wire) + 7) / 8;
  if (per_message <= 0 || times <= 0 || per_message > kMostBytes / bytes_each / times)
    fail(ErrorCode::kMalformed, "flow of {} over link {}: {} elements per message times {} samples is no size of a message", flow.tensor,
         flow.link, per_message, times);
  return to_size(per_message * times * bytes_each);
}

bool eager(const FlowSpec& flow, const TransportSettings& settings) {
  return !flow.device_memory && flow.most_bytes <= settings.eager_bytes;
}

}  // namespace

int64_t FlowTable::evaluation_of(int64_t flow) const {
  if (flow < 0 || flow >= static_cast<int64_t>(twins.size()) || item(twins, flow) < 0)
    fail(ErrorCode::kNotFound, "flow {} has no twin for evaluation; only forward activations, partial sums and states have one", flow);
  return item(twins, flow);
}

int64_t link_of(const FlowTable& table, const FlowSpec& flow) {
  return direction_of(table, flow) == Direction::kForward ? flow.from : flow.to;
}

Direction direction_of(const FlowTable& table, const FlowSpec& flow) {
  // In a ring of two both devices follow each other: the data link is meant, not the one that closes the ring.
  if (flow.from == flow.to + 1) return Direction::kBackward;
  return (flow.from + 1) % table.devices == flow.to ? Direction::kForward : Direction::kBackward;
}

std::string text_of(const FlowSpec& flow) {
  return fmt::format("{} \"{}\" from device {} to {}", name_of(flow.stream), flow.tensor, flow.from, flow.to);
}

FlowTable flow_table(const Plan& plan, int64_t credits) {
  FlowTable table;
  table.devices = plan.devices();
  table.plan_digest = digest_of(text_of(plan));
  const auto add = [&](const Flow& flow) {
    FlowSpec spec;
    spec.stream = flow.stream;
    spec.tensor = flow.tensor;
    const bool forward = flow.direction == Direction::kForward;
    spec.from = forward ? flow.link : flow.link + 1;
    spec.to = forward ? flow.link + 1 : flow.link;
    spec.most_bytes = message_bytes(plan, flow);
    spec.credits = credits;
    table.flows.push_back(std::move(spec));
  };
  for (const Flow& flow : plan.flows) add(flow);
  for (const Flow& flow : plan.flows) {
    const bool forward = flow.direction == Direction::kForward && (flow.stream == Stream::kActivation || flow.stream == Stream::kPartial);
    const bool used = forward || (flow.stream == Stream::kState && is_forward_state(flow.tensor));
    table.twins.push_back(used ? static_cast<int64_t>(table.flows.size()) : -1);
    if (used) add(flow);
  }
  check(table);
  return table;
}

void check(const FlowTable& table) {
  if (table.flows.size() >= kNoFlow) fail(ErrorCode::kMalformed, "{} flows are more than a header can name", table.flows.size());
  for (size_t f = 0; f < table.flows.size(); ++f) {
    const FlowSpec& flow = table.flows[f];
    const auto inside = [&](int64_t device) { return device >= 0 && device < table.devices; };
    if (!inside(flow.from) || !inside(flow.to) || flow.from == flow.to ||
        ((flow.from + 1) % table.devices != flow.to && (flow.to + 1) % table.devices != flow.from))
      fail(ErrorCode::kMalformed, "flow {} ({}): not neighbours in a ring of {} devices", f, text_of(flow), table.devices);
    if (flow.most_bytes < 1 || std::cmp_greater(flow.most_bytes, kMostBytes))
      fail(ErrorCode::kMalformed, "flow {} ({}): messages of {} bytes; expected 1 to {}", f, text_of(flow), flow.most_bytes, kMostBytes);
    if (flow.credits < 1 || flow.credits > kMostCredits)
      fail(ErrorCode::kMalformed, "flow {} ({}): {} credits; expected 1 to {}", f, text_of(flow), flow.credits, kMostCredits);
  }
}

std::string digest_of(const FlowTable& table) {
  std::string text = fmt::format("{} devices, plan {}\n", table.devices, table.plan_digest);
  for (const FlowSpec& flow : table.flows)
    fmt::format_to(std::back_inserter(text), "{}, {} bytes, {} credits{}\n", text_of(flow), flow.most_bytes, flow.credits,
                   flow.device_memory ? ", device memory" : "");
  return digest_of(std::string_view(text));
}

TransportMemory memory_of(const FlowTable& table, const RingLayout& layout, int64_t rank, const TransportSettings& settings) {
  TransportMemory memory;
  const size_t lane_bytes = settings.lane_slots * aligned(kFrameHeaderBytes + settings.eager_bytes, kSlotPage);
  if (layout.ranks > 1) memory.lanes += 4 * lane_bytes;  // control: to and from either neighbour
  std::set<int64_t> links;
  for (const FlowSpec& flow : table.flows) {
    const bool sends = layout.rank_of(flow.from) == rank;
    const bool receives = layout.rank_of(flow.to) == rank;
    if (!sends && !receives) continue;
    const int64_t link = link_of(table, flow);
    if (links.insert(link).second) memory.lanes += 2 * lane_bytes;
    const size_t credits = to_size(flow.credits);
    const size_t slot = aligned(kFrameHeaderBytes + flow.most_bytes, kSlotPage);
    if (eager(flow, settings)) {
      if (sends) memory.sending += aligned(flow.most_bytes);
      if (sends) memory.queued += credits * (kFrameHeaderBytes + flow.most_bytes);
      if (receives) memory.receiving += credits * aligned(flow.most_bytes);
    } else if (sends && receives) {
      memory.inside += credits * slot;
    } else {
      (sends ? memory.sending : memory.receiving) += credits * slot;
    }
  }
  return memory;
}

std::string text_of(const TransportMemory& memory) {
  return fmt::format("{} bytes at most: {} to send, {} to receive, {} inside the rank, {} shared lanes, {} queued", memory.total(),
                     memory.sending, memory.receiving, memory.inside, memory.lanes, memory.queued);
}

void check(const TransportSettings& settings) {
  using namespace std::chrono_literals;
  if (settings.deadline < 1ms || settings.deadline > 24h * 365)
    fail(ErrorCode::kUsage, "a deadline of {} s; expected a millisecond to a year",
         std::chrono::duration<double>(settings.deadline).count());
  if (settings.eager_bytes < 256 || settings.eager_bytes > (size_t{1} << 24))
    fail(ErrorCode::kUsage, "messages up to {} bytes share a queue; expected 256 to {}", settings.eager_bytes, 1 << 24);
  if (settings.lane_slots < 1 || settings.lane_slots > 1024)
    fail(ErrorCode::kUsage, "queues of {} slots; expected 1 to 1024", settings.lane_slots);
}

}  // namespace millrace
