// One rank's life in a ring of random flows: sends and receives everything there is, in random order, and checks each bit.
//
//   Dice dice(seed);
//   const FlowTable table = random_table(dice, /*devices=*/5);        // the same on every rank
//   live(transport, Dice(seed + rank), /*messages=*/40);              // per flow
//   EXPECT_EQ(transport.counters(f).sent, expected_count(table.flows[f], 40));
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "tests/transport/rings.h"

namespace millrace::testing_support {

class Dice {
 public:
  explicit Dice(uint64_t seed) : generator_(seed) {}
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(generator_); }

 private:
  std::mt19937_64 generator_;
};

inline FlowTable random_table(Dice& dice, int64_t devices) {
  FlowTable table;
  table.devices = devices;
  constexpr Stream kStreams[] = {Stream::kActivation, Stream::kPartial, Stream::kError, Stream::kParameter,
                                 Stream::kGradient,   Stream::kLabel,   Stream::kRecord};
  for (int64_t link = 0; link < devices && devices > 1; ++link)
    for (int64_t f = dice.between(0, 4); f > 0; --f) {
      FlowSpec flow;
      flow.stream = kStreams[dice.between(0, 6)];
      flow.tensor = fmt::format("t{}", table.flows.size());
      flow.from = link;
      flow.to = (link + 1) % devices;
      if (dice.chance(0.5)) std::swap(flow.from, flow.to);
      flow.most_bytes = static_cast<size_t>(dice.chance(0.5) ? dice.between(1, 300) : dice.between(3900, 20'000));
      flow.credits = dice.between(1, 3);
      table.flows.push_back(std::move(flow));
    }
  return table;
}

inline size_t bytes_of(const FlowSpec& flow, int64_t n) {
  return n % 5 == 0 ? flow.most_bytes : static_cast<size_t>(n * 7919) % (flow.most_bytes + 1);
}
inline uint64_t seed_of(size_t flow, int64_t n) { return flow * 1'000'003 + static_cast<uint64_t>(n); }
inline MessageId id_of(int64_t n) { return {n / 3, static_cast<int32_t>(n % 3) - 1}; }

// One rank's life: whatever can be done, in random order, until every message has been sent and received.
inline void live(Transport& transport, Dice dice, int64_t messages) {
  const FlowTable& table = transport.table();
  const auto here = [&](int64_t device) { return transport.layout().rank_of(device) == transport.rank(); };
  struct State {
    int64_t sent = 0;
    int64_t received = 0;
    bool reading = false;
  };
  std::vector<State> states(table.flows.size());
  const auto act = [&](size_t f) {
    const FlowSpec& flow = table.flows[f];
    const auto number = static_cast<int64_t>(f);
    State& state = states[f];
    if (here(flow.to) && state.reading && dice.chance(0.7)) {
      transport.release(number);
      state.reading = false;
      ++state.received;
      return true;
    }
    if (here(flow.to) && !state.reading && state.received < messages && transport.has_message(number)) {
      const auto payload = transport.begin_receive(number, id_of(state.received), bytes_of(flow, state.received));
      if (!holds(payload, seed_of(f, state.received))) fail(ErrorCode::kMismatch, "flow {}, message {} is damaged", f, state.received);
      state.reading = true;
      return true;
    }
    if (here(flow.from) && state.sent < messages && transport.can_send(number)) {
      const size_t bytes = bytes_of(flow, state.sent);
      fill(transport.begin_send(number).first(bytes), seed_of(f, state.sent));
      if (dice.chance(0.3)) transport.progress();
      transport.commit_send(number, id_of(state.sent), bytes);
      ++state.sent;
      return true;
    }
    return false;
  };
  for (;;) {
    std::vector<Interest> missing;
    bool open = false;
    bool acted = false;
    for (size_t i = 0; i < states.size(); ++i) {
      const auto f = static_cast<size_t>(dice.between(0, static_cast<int64_t>(states.size()) - 1));
      acted = act(f) || acted;
    }
    for (size_t f = 0; f < states.size(); ++f) {
      const State& state = states[f];
      const auto number = static_cast<int64_t>(f);
      open = open || state.reading;
      if (here(table.flows[f].from) && state.sent < messages) missing.push_back({Want::kCredit, number, id_of(state.sent)});
      if (here(table.flows[f].to) && !state.reading && state.received < messages)
        missing.push_back({Want::kMessage, number, id_of(state.received)});
    }
    if (missing.empty() && !open) return;
    if (acted || open || dice.chance(0.2))
      transport.progress();
    else
      transport.wait(missing);
  }
}

inline Count expected_count(const FlowSpec& flow, int64_t messages) {
  Count count{messages, 0};
  for (int64_t n = 0; n < messages; ++n) count.bytes += static_cast<int64_t>(bytes_of(flow, n));
  return count;
}

}  // namespace millrace::testing_support
