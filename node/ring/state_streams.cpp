#include "node/ring/state_streams.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {

StateStreams::StateStreams(Transport& transport, const Plan& plan, int64_t device) : transport_(transport) {
  const auto target = [](const Flow& flow) { return flow.direction == Direction::kForward ? flow.link + 1 : flow.link; };
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    const Flow& flow = plan.flows[f];
    if (flow.stream != Stream::kState || target(flow) != device) continue;
    Way way{.in = static_cast<int64_t>(f), .onward = -1, .rows = {}};
    for (size_t o = 0; o < plan.flows.size(); ++o) {
      const Flow& other = plan.flows[o];
      const int64_t next = flow.link + (flow.direction == Direction::kForward ? 1 : -1);
      if (other.stream == Stream::kState && other.tensor == flow.tensor && other.channels == flow.channels && other.link == next &&
          other.direction == flow.direction)
        way.onward = static_cast<int64_t>(o);
    }
    const auto twin = [&](int64_t of) { return of < 0 ? -1 : item(transport.table().twins, of); };
    ways_.push_back(way);
    if (twin(way.in) >= 0) ways_.push_back({.in = twin(way.in), .onward = twin(way.onward), .rows = {}});
  }
}

bool StateStreams::step() {
  bool acted = false;
  for (Way& way : ways_) {
    if (!transport_.has_message(way.in) || (way.onward >= 0 && !transport_.can_send(way.onward))) continue;
    const Message message = transport_.begin_receive(way.in);
    way.rows.push_back({message.id, {message.payload.begin(), message.payload.end()}});
    if (way.onward >= 0) {
      std::memcpy(transport_.begin_send(way.onward).data(), message.payload.data(), message.payload.size());
      transport_.commit_send(way.onward, message.id, message.payload.size());
    }
    transport_.release(way.in);
    acted = true;
  }
  return acted;
}

void StateStreams::look(std::vector<Interest>& missing) const {
  for (const Way& way : ways_) {
    if (!transport_.has_message(way.in))
      missing.push_back({Want::kMessage, way.in});
    else if (way.onward >= 0)
      missing.push_back({Want::kCredit, way.onward});
  }
}

const std::deque<StateStreams::Row>& StateStreams::rows_of(int64_t flow) const {
  const auto way = std::ranges::find(ways_, flow, &Way::in);
  MILLRACE_CHECK(way != ways_.end(), "no rows of flow {} arrive here", flow);
  return way->rows;
}

std::vector<std::byte> StateStreams::take(int64_t flow, const MessageId& id) {
  auto& rows = const_cast<std::deque<Row>&>(rows_of(flow));
  MILLRACE_CHECK(!rows.empty(), "no row of flow {} is here", flow);
  Row row = std::move(rows.front());
  rows.pop_front();
  if (!(row.id == id))
    fail(ErrorCode::kMismatch, "a row of states of flow {} is step {} of micro-batch {}, expected step {} of {}", flow, row.id.chunk,
         row.id.index, id.chunk, id.index);
  return std::move(row.payload);
}

}  // namespace millrace
