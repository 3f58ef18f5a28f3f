// Rows of states on their way between devices that share the steps of a recurrent layer: taken as soon as they arrive, passed on to those
// behind, and kept for this device's next step.
//
//   StateStreams states(transport, plan, device);
//   while (states.step()) {}
//   if (states.here(flow)) unpack(wire, states.take(flow, {s, step}), row);
//
// Passing on waits for no action of the device, so rows cross any number of devices both ways without anybody waiting in a circle. Flows
// are the table's, evaluation's among them. Borrows the transport.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "core/documents/plan.h"
#include "transport/streams/transport.h"

namespace millrace {

class StateStreams {
 public:
  StateStreams(Transport& transport, const Plan& plan, int64_t device);

  // Takes what can be taken: false when there was nothing.
  bool step();
  void look(std::vector<Interest>& missing) const;

  bool here(int64_t flow) const { return !rows_of(flow).empty(); }
  // Fails with kMismatch when the row is another one.
  std::vector<std::byte> take(int64_t flow, const MessageId& id);

 private:
  struct Row {
    MessageId id;
    std::vector<std::byte> payload;
  };
  struct Way {
    int64_t in = 0, onward = -1;
    std::deque<Row> rows;
  };
  const std::deque<Row>& rows_of(int64_t flow) const;

  Transport& transport_;
  std::vector<Way> ways_;
};

}  // namespace millrace
