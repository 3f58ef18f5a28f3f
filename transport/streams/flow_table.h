// Every flow that a transport carries: the plan's, and beside each forward one its twin for evaluation.
//
//   const FlowTable table = flow_table(plan);
//   table.flows[f]                        // what Plan::flows[f] needs of the transport
//   table.evaluation_of(f)                // where V's messages of that flow travel; the order of V among F differs by device
//   fmt::print("{}", text_of(memory_of(table, layout, rank, settings)));      // before anything is allocated
//
// Index f is the flow's name everywhere: in the header of its messages, as MPI tag, in errors. All ranks hold equal tables
// (Agreement::require_equal of their digests says so). Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "transport/streams/ring_layout.h"

namespace millrace {

struct FlowSpec {
  Stream stream = Stream::kActivation;
  std::string tensor;
  int64_t from = 0;  // devices; neighbours in the ring
  int64_t to = 1;
  size_t most_bytes = 0;       // the largest payload of a message
  int64_t credits = 2;         // messages that may be on the way or unread: as many slots at either end
  bool device_memory = false;  // payloads lie on an accelerator: for wires that can (transport/nccl)
  bool operator==(const FlowSpec&) const = default;
};

struct FlowTable {
  int64_t devices = 1;
  std::vector<FlowSpec> flows;
  std::vector<int64_t> twins;  // per flow of the plan: its evaluation flow, -1 when it has none
  std::string plan_digest;     // what else all ranks must have in common; may be empty

  int64_t evaluation_of(int64_t flow) const;
};

// `credits` are those of every flow.
FlowTable flow_table(const Plan& plan, int64_t credits = 2);
// Fails with kMalformed, naming the flow, unless all of them join neighbours and have a size and credits.
void check(const FlowTable& table);
// Of everything in the table.
std::string digest_of(const FlowTable& table);

// The link of a flow and its direction on it.
int64_t link_of(const FlowTable& table, const FlowSpec& flow);
Direction direction_of(const FlowTable& table, const FlowSpec& flow);
// `activation "conv1" from device 0 to 1`
std::string text_of(const FlowSpec& flow);

struct TransportSettings;

// At most what a rank's transport and wire allocate for messages, in bytes.
struct TransportMemory {
  size_t sending = 0;    // slots of outgoing flows
  size_t receiving = 0;  // slots of incoming flows
  size_t inside = 0;     // slots of flows between two devices of the rank; the same memory sends and receives
  size_t lanes = 0;      // slots that small messages, credits and control share
  size_t queued = 0;     // small messages that wait for a lane, when all credits are out at once
  size_t total() const { return sending + receiving + inside + lanes + queued; }
};
TransportMemory memory_of(const FlowTable& table, const RingLayout& layout, int64_t rank, const TransportSettings& settings);
std::string text_of(const TransportMemory& memory);

}  // namespace millrace
