// A segment's messages over the transport: what the executor receives and sends, packed as the flows' wire type says.
//
//   RingPorts ports(transport, plan, device, /*trace=*/nullptr);
//   ports.begin({.index = s}, /*training=*/true);
//   segment.forward(batch, pixels, &ports, &score);
//
// Messages of flows that stay on their devices (FlowSpec::device_memory) are packed there, by the device itself.
// Every message must have been seen to be there, and every credit: the caller asks before it lets the executor run.
// Borrows transport, plan and trace. One device's messages at a time.
#pragma once

#include "core/train/executor.h"
#include "node/report/trace.h"
#include "node/ring/state_streams.h"
#include "transport/streams/transport.h"

namespace millrace {

class RingPorts final : public FlowPorts {
 public:
  // `trace` (null: none) hears of every message of this device.
  RingPorts(Transport& transport, const Plan& plan, int64_t device, Trace* trace)
      : transport_(transport), plan_(plan), device_(device), trace_(trace), states_(transport, plan, device) {}

  StateStreams& states() { return states_; }
  // Of an action that is taken in phases, which one: rows of states are those of this step and of the one before.
  void begin_phase(int64_t phase) { phase_ = static_cast<int32_t>(phase); }

  // What the next messages are about. Evaluation has flows of its own.
  void begin(const MessageId& id, bool training) {
    id_ = id;
    training_ = training;
    phase_ = 0;
    due_ = Instant{};
  }
  // Nothing leaves before then, nor is over: for devices that keep to a pace. Messages go on moving meanwhile.
  void hold_until(Instant due) { due_ = due; }
  void await_due();
  int64_t flow_for(int64_t flow) const { return training_ ? flow : transport_.table().evaluation_of(flow); }

  void receive(int64_t flow, Device& device, Tensor& tensor, ChannelRange channels, StepRange steps) override;
  void send(int64_t flow, Device& device, const Tensor& tensor, ChannelRange channels, StepRange steps) override;
  void receive_row(int64_t flow, std::span<double> row) override;
  void send_row(int64_t flow, std::span<const double> row) override;
  void progress() override { transport_.progress(); }

 private:
  void mark(int64_t flow, std::string_view what);

  Transport& transport_;
  const Plan& plan_;
  int64_t device_;
  Trace* trace_;
  StateStreams states_;
  int32_t phase_ = 0;
  MessageId id_;
  bool training_ = true;
  Instant due_{};
  HostBuffer buffer_;
};

}  // namespace millrace
