// Plans on threads: the loop that a node runs, with every tensor replaced by a digest of what went into it. For any number
// of ranks the digests are the same, nobody waits in vain, and the bytes moved are those that the plan predicts.
#include "core/plan/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "core/base/crc32c.h"
#include "core/plan/flows.h"
#include "core/plan/segment_program.h"
#include "tests/core/random_plans.h"
#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"
#include "transport/streams/agreement.h"

namespace millrace {
namespace {

using testing::Each;
using testing_support::outcomes_on_threads;

// A device that computes nothing: it takes what an action takes, and sends digests of all it took so far.
struct IdleDevice {
  std::vector<Action> actions;
  size_t next = 0;
  // Flows by index; forward ones arrive in F and leave in F, backward ones in E.
  std::vector<int64_t> forward_in, forward_out, backward_in, backward_out;
  uint32_t digest = 0;
};

std::vector<IdleDevice> devices_of(const Plan& plan, const Graph& graph, int64_t mini_batches) {
  std::vector<IdleDevice> devices;
  for (int64_t d = 0; d < plan.devices(); ++d) {
    IdleDevice device;
    device.actions = actions_of(schedule_spec(plan, d, mini_batches));
    for (const Step& step : compile_segment(plan, graph, d).steps) {
      const bool receives = step.kind == StepKind::kReceive;
      if (!receives && step.kind != StepKind::kSend) continue;
      (receives ? device.forward_in : device.forward_out).push_back(step.forward_flow);
      if (step.backward_flow >= 0) (receives ? device.backward_out : device.backward_in).push_back(step.backward_flow);
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

// What the device's next action still lacks.
std::vector<Interest> missing_of(Transport& transport, const IdleDevice& device) {
  std::vector<Interest> missing;
  const Action& action = device.actions[device.next];
  const bool forward = action.kind == ActionKind::kForward;
  if (!forward && action.kind != ActionKind::kErrorBack) return missing;
  for (const int64_t flow : forward ? device.forward_in : device.backward_in)
    if (!transport.has_message(flow)) missing.push_back({Want::kMessage, flow, {action.index}});
  for (const int64_t flow : forward ? device.forward_out : device.backward_out)
    if (!transport.can_send(flow)) missing.push_back({Want::kCredit, flow, {action.index}});
  return missing;
}

void perform(Transport& transport, IdleDevice& device) {
  const Action& action = device.actions[device.next++];
  const std::string text = text_of(action);
  device.digest = crc32c(std::as_bytes(std::span(text)), device.digest);
  const bool forward = action.kind == ActionKind::kForward;
  if (!forward && action.kind != ActionKind::kErrorBack) return;
  for (const int64_t flow : forward ? device.forward_in : device.backward_in) {
    const size_t bytes = transport.table().flows[static_cast<size_t>(flow)].most_bytes;
    device.digest = crc32c(transport.begin_receive(flow, {action.index}, bytes), device.digest);
    transport.release(flow);
  }
  for (const int64_t flow : forward ? device.forward_out : device.backward_out) {
    const std::span<std::byte> slot = transport.begin_send(flow);
    std::fill(slot.begin(), slot.end(), static_cast<std::byte>(device.digest));
    std::memcpy(slot.data(), &device.digest, std::min(slot.size(), sizeof(device.digest)));
    transport.commit_send(flow, {action.index}, slot.size());
  }
}

struct Outcome {
  std::vector<uint32_t> digests;       // by device
  std::vector<FlowCounters> counters;  // by flow, of all ranks
};

Outcome run(const Plan& plan, const Graph& graph, int64_t ranks, int64_t credits, int64_t mini_batches) {
  const FlowTable table = flow_table(plan, credits);
  std::vector<IdleDevice> devices = devices_of(plan, graph, mini_batches);
  LocalHub hub(ranks);
  std::vector<std::vector<FlowCounters>> counters(static_cast<size_t>(ranks));
  const auto outcomes = outcomes_on_threads(ranks, [&](int64_t rank) {
    Transport transport(hub.wire(rank));
    transport.open(table);
    const std::vector<int64_t> here = transport.layout().devices_of(rank);
    for (;;) {
      std::vector<Interest> missing;
      bool over = true;
      bool acted = false;
      // The lowest device whose next action has all it needs.
      for (size_t i = 0; i < here.size() && !acted; ++i) {
        const auto d = static_cast<size_t>(here[i]);
        if (devices[d].next == devices[d].actions.size()) continue;
        over = false;
        const std::vector<Interest> lacks = missing_of(transport, devices[d]);
        acted = lacks.empty();
        if (acted) perform(transport, devices[d]);
        missing.insert(missing.end(), lacks.begin(), lacks.end());
      }
      if (over) break;
      if (acted)
        transport.progress();
      else
        transport.wait(missing);
    }
    Agreement(transport).close();
    for (size_t f = 0; f < table.flows.size(); ++f)
      counters[static_cast<size_t>(rank)].push_back(transport.counters(static_cast<int64_t>(f)));
  });
  EXPECT_THAT(outcomes, Each(""));
  Outcome outcome;
  for (const IdleDevice& device : devices) outcome.digests.push_back(device.digest);
  for (size_t f = 0; f < table.flows.size(); ++f) {
    FlowCounters sum;
    for (const auto& of_rank : counters) sum += of_rank.empty() ? FlowCounters{} : of_rank[f];
    outcome.counters.push_back(sum);
  }
  return outcome;
}

TEST(Schedules, RunTheSameOnAnyNumberOfRanksAndMoveWhatThePlanSays) {
  testing_support::RandomPlans random(11);
  constexpr Alignment kAlignments[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                                       Alignment::kZeroBubble};
  int64_t messages = 0;
  for (int round = 0; round < 25; ++round) {
    const Graph graph(random.model());
    const int64_t devices = random.between(1, 4);
    const int64_t micro_batches = random.between(4, 6);
    const Plan plan = random.plan(graph, devices, kAlignments[round % 5], micro_batches);
    const int64_t credits = random.between(1, 3);
    const Outcome alone = run(plan, graph, 1, credits, 2);
    for (int64_t ranks = 2; ranks <= devices; ++ranks) {
      const Outcome outcome = run(plan, graph, ranks, credits, 2);
      EXPECT_EQ(outcome.digests, alone.digests) << "round " << round << ", " << ranks << " ranks";
      EXPECT_EQ(outcome.counters, alone.counters) << "round " << round << ", " << ranks << " ranks";
    }
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      const Flow& flow = plan.flows[f];
      const int64_t bytes = flow.elements_per_sample * plan.mini_batch * 2 * bits_of(flow.wire) / 8;
      EXPECT_EQ(alone.counters[f].sent, (Count{2 * micro_batches, bytes})) << "round " << round << ", flow " << f;
      EXPECT_EQ(alone.counters[f].received, alone.counters[f].sent);
      messages += alone.counters[f].sent.messages;
    }
  }
  EXPECT_GT(messages, 500);
}

}  // namespace
}  // namespace millrace
