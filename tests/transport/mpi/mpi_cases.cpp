// What one rank of each MPI test does; run_mpi_case.py starts it under mpirun and judges how the job ends.
//
//   mpirun -n 3 build/release/bin/mpi_cases everything
//   build/release/bin/mpi_cases launch-command 3        how to start it here
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "core/base/check.h"
#include "tests/transport/random_life.h"
#include "tests/transport/rings.h"
#include "transport/mpi/doorbells.h"
#include "transport/mpi/host_channels.h"
#include "transport/mpi/host_memory.h"
#include "transport/mpi/mpi_handles.h"
#include "transport/mpi/mpi_launch.h"
#include "transport/mpi/mpi_session.h"
#include "transport/mpi/mpi_wire.h"
#include "transport/shaping/shaped_wire.h"
#include "transport/streams/agreement.h"
#include "transport/streams/column_sum.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing_support::both_ways;
using testing_support::Dice;
using testing_support::expected_count;
using testing_support::live;
using testing_support::random_table;

// Where a rank is stopped; elsewhere nobody is waited for, and a busy machine must not look like silence.
constexpr Nanoseconds kShortDeadline = 4s;

// Everything in order, whole and counted, for some seeds.
void random_flows(MpiSession& session, const MpiWireSettings& wire_settings, bool shaped) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Dice dice(seed);
    const int64_t devices = session.ranks() + dice.between(0, 3);
    const int64_t messages = dice.between(1, 60);
    const FlowTable table = random_table(dice, devices);
    TransportSettings settings;
    settings.checksums = dice.chance(0.5);
    settings.lane_slots = static_cast<size_t>(dice.between(1, 8));
    std::unique_ptr<Wire> wire = make_ring_wire(session.world(), wire_settings);
    if (shaped)
      wire = std::make_unique<ShapedWire>(
          std::move(wire), std::vector<LinkShape>(static_cast<size_t>(devices),
                                                  {.forward_bits_per_second = 1e9, .shared_bits_per_second = 1e9, .latency = 5us}));
    Transport transport(std::move(wire), settings);
    Agreement agreement(transport);
    agreement.require_equal("plan and settings", digest_of(table));
    transport.open(table, seed % 2 == 0 && can_take_turns(devices, session.ranks()) ? Deal::kTurns : Deal::kBlocks);
    live(transport, Dice(seed * 100 + static_cast<uint64_t>(session.rank())), messages);
    agreement.close();
    for (size_t f = 0; f < table.flows.size(); ++f) {
      const FlowSpec& flow = table.flows[f];
      const Count expected = expected_count(flow, messages);
      const FlowCounters counters = transport.counters(static_cast<int64_t>(f));
      MILLRACE_CHECK(counters.sent == (transport.layout().rank_of(flow.from) == session.rank() ? expected : Count{}), "flow {}", f);
      MILLRACE_CHECK(counters.received == (transport.layout().rank_of(flow.to) == session.rank() ? expected : Count{}), "flow {}", f);
    }
  }
}

void agreement(MpiSession& session) {
  Transport transport(make_ring_wire(session.world()));
  Agreement agreement(transport);
  std::string plan(300'000, 'p');
  for (size_t i = 0; i < plan.size(); i += 3) plan[i] = static_cast<char>(i);
  MILLRACE_CHECK(agreement.broadcast("plan", session.rank() == 0 ? plan : "") == plan, "the plan changed on its way to rank {}",
                 session.rank());
  const auto all = agreement.gather("ranks", std::to_string(session.rank()));
  for (size_t r = 0; r < all.size(); ++r) MILLRACE_CHECK(all[r] == std::to_string(r), "rank {} said {}", r, all[r]);
  for (int round = 0; round < 20; ++round) agreement.barrier("round");
  agreement.require_equal("build", "this");
  agreement.close();
}

// Rank 0 sends before the others have opened their flows, or even made their transports.
void early_sender(MpiSession& session, const MpiWireSettings& wire_settings) {
  constexpr size_t kBytes = 100'000;
  const FlowTable table = both_ways(session.ranks(), kBytes, 2);
  if (session.rank() > 0) std::this_thread::sleep_for(50ms);
  Transport transport(make_ring_wire(session.world(), wire_settings));
  transport.open(table);
  if (session.rank() + 1 < session.ranks())
    for (int64_t n = 0; n < 2; ++n) {
      testing_support::fill(transport.begin_send(2 * session.rank()), static_cast<uint64_t>(n));
      transport.commit_send(2 * session.rank(), {n}, kBytes);
    }
  if (session.rank() > 0)
    for (int64_t n = 0; n < 2; ++n) {
      const int64_t flow = 2 * (session.rank() - 1);
      transport.wait(std::array{Interest{Want::kMessage, flow, {n}}});
      MILLRACE_CHECK(testing_support::holds(transport.begin_receive(flow, {n}, kBytes), static_cast<uint64_t>(n)), "message {}", n);
      transport.release(flow);
    }
  Agreement(transport).close();
}

// Two rings side by side, numbered in opposite ways: nothing mixes.
void two_rings(MpiSession& session) {
  const FlowTable table = both_ways(session.ranks(), 1000, 1);
  const MpiGroup second = session.split(0, session.ranks() - session.rank());  // the other way round
  Transport one(make_ring_wire(session.split(0, session.rank())));
  Transport two(make_ring_wire(second));
  MILLRACE_CHECK(two.rank() == session.ranks() - 1 - session.rank(), "rank {} is {} of the second ring", session.rank(), two.rank());
  one.open(table);
  two.open(table);
  live(one, Dice(1 + static_cast<uint64_t>(session.rank())), 10);
  live(two, Dice(2 + static_cast<uint64_t>(session.rank())), 10);
  Agreement(one).close();
  Agreement(two).close();
}

// Two rings of half the ranks each: sums over the columns.
void replicas(MpiSession& session) {
  if (session.ranks() % 2 != 0) return;
  const int64_t in_ring = session.rank() / 2;
  const int64_t replica = session.rank() % 2;
  Transport column(make_ring_wire(session.split(in_ring, replica)));
  column.open(ColumnSum::flows(column.ranks()));
  std::vector<float> values(200'000, static_cast<float>(10 * replica + in_ring));
  ColumnSum(column).add_up(std::span(values), 0);
  for (const float value : values) MILLRACE_CHECK(value == static_cast<float>(10 + 2 * in_ring), "the sum is {}", value);
  Agreement(column).close();
}

// Rank 1 sleeps, and only rank 0 wakes it: before it falls asleep, after, or not at all.
void doorbells(MpiSession& session) {
  const MpiGroup group = session.world().copy();
  Doorbells bells(group.state().communicator);
  for (int64_t r = 0; r < session.ranks(); ++r)
    MILLRACE_CHECK(session.ranks() == 1 || bells.reaches(r), "rank {} has no bell, and all run on one host", r);
  if (session.ranks() == 1) return;
  const auto all_here = [&] { check_mpi(MPI_Barrier(group.state().communicator), "waiting for all"); };
  const auto slept = [&](uint32_t heard, Nanoseconds at_most, bool rung) {
    const Instant begin = machine_clock().now();
    MILLRACE_CHECK(bells.sleep(heard, at_most) == rung, "a sleep of {} ns {}", at_most.count(), rung ? "was not ended" : "was ended");
    return machine_clock().now() - begin;
  };
  const uint32_t before = bells.heard();
  all_here();
  if (session.rank() == 0) bells.ring(1);
  all_here();
  if (session.rank() == 1) MILLRACE_CHECK(slept(before, 100s, true) < 90s, "it rang before, and rank 1 slept");
  if (session.rank() != 1) MILLRACE_CHECK(slept(before, 1ms, false) >= 1ms, "it rang for another");
  const uint32_t again = bells.heard();
  all_here();
  if (session.rank() == 0) {
    std::this_thread::sleep_for(50ms);
    bells.ring(1);
  }
  if (session.rank() == 1) MILLRACE_CHECK(slept(again, 100s, true) < 90s, "it rang, and rank 1 slept on");
  if (session.rank() == 1) MILLRACE_CHECK(slept(bells.heard(), 20ms, false) >= 20ms, "nobody rang");
}

// What is written on one rank lies where the other one reads it, unless MPI was asked for.
void where_slots_lie(MpiSession& session) {
  if (session.ranks() != 2) return;
  for (const bool share : {true, false}) {
    const std::unique_ptr<Wire> wire = make_mpi_wire(session.world(), {.share_memory = share});
    ChannelSpec spec{.peer = 1 - session.rank(), .tag = 7, .outgoing = session.rank() == 0, .payload_bytes = 100'000, .slots = 2};
    Channel& channel = wire->open(spec);
    if (session.rank() == 0) {
      channel.slot(0).payload[99'999] = std::byte{1};
      channel.send(0, 100'000);
    } else {
      std::vector<Arrival> arrivals;
      while (arrivals.empty()) static_cast<void>(wire->progress(arrivals));
      MILLRACE_CHECK(arrivals[0].frame_bytes == 100'064 && channel.slot(0).payload[99'999] == std::byte{1}, "the frame is another");
    }
    const MpiGroup group = session.world().copy();
    const auto all_here = [&] { check_mpi(MPI_Barrier(group.state().communicator), "waiting for all"); };
    if (session.rank() == 1) channel.receive_again(0);
    all_here();
    if (session.rank() == 0) MILLRACE_CHECK(channel.sent(0), "the slot was given back");
    if (session.rank() == 0) channel.slot(0).payload[99'999] = std::byte{2};
    all_here();
    if (session.rank() == 1)
      MILLRACE_CHECK((channel.slot(0).payload[99'999] == std::byte{2}) == share, "{} memory", share ? "another" : "the same");
    all_here();
  }
}

// Only what its owner told of is opened.
void memory_without_a_name() {
  constexpr size_t kBytes = 4096;
  HostMemoryPlace gone;
  {
    const HostMemory memory = HostMemory::make(kBytes);
    MILLRACE_CHECK(memory, "no memory");
    MILLRACE_CHECK(HostMemory::open(memory.place(), kBytes), "it cannot be opened");
    MILLRACE_CHECK(!HostMemory::open(memory.place(), kBytes + 1), "it is larger than it was made");
    HostMemoryPlace other = memory.place();
    ++other.token[1];
    MILLRACE_CHECK(!HostMemory::open(other, kBytes), "it was opened with another token");
    // A file of somebody's that holds the token: it has a name.
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::tmpfile(), std::fclose);
    MILLRACE_CHECK(file != nullptr && std::fwrite(memory.place().token.data(), HostMemory::kTokenBytes, 1, file.get()) == 1 &&
                       std::fflush(file.get()) == 0,
                   "no file");
    HostMemoryPlace elsewhere = memory.place();
    elsewhere.number = fileno(file.get());
    MILLRACE_CHECK(!HostMemory::open(elsewhere, 0), "another file was opened");
    MILLRACE_CHECK(!HostMemory::open({}, 0), "nowhere is something");
    gone = memory.place();
  }
  MILLRACE_CHECK(!HostMemory::open(gone, kBytes), "it is there without its owner");
}

// Ranks that do not see each other's processes take MPI.
void apart(MpiSession& session) {
  const MpiGroup group = session.world().copy();
  const Doorbells bells(group.state().communicator);
  const HostChannels here(group.state().communicator, nullptr, true);
  for (int64_t r = 0; r < session.ranks(); ++r)
    MILLRACE_CHECK(!bells.reaches(r) && !here.reaches(r), "rank {} shares memory with rank {}", session.rank(), r);
  random_flows(session, {}, false);
}

void launched(MpiSession& session) {
  MILLRACE_CHECK(MpiSession::launched(), "mpirun was not noticed");
  MILLRACE_CHECK(!session.host().empty(), "the host has no name");
  for (const LaunchSetting& setting : own_settings())
    MILLRACE_CHECK(getenv(setting.name.c_str()) != nullptr, "{} is not set", setting.name);
}

void sharing(MpiSession& session) {
  memory_without_a_name();
  where_slots_lie(session);
  doorbells(session);
}

void everything(MpiSession& session) {
  launched(session);
  random_flows(session, {}, false);
  random_flows(session, {.share_memory = false}, false);
  random_flows(session, {.largest_count = 4096, .share_memory = false}, false);
  random_flows(session, {}, true);
  agreement(session);
  early_sender(session, {});
  early_sender(session, {.share_memory = false});
  two_rings(session);
  replicas(session);
  sharing(session);
}

// Messages go to and fro between neighbours; at the twentieth the last rank does something else.
void until(MpiSession& session, const std::function<void()>& last_rank_does, Nanoseconds deadline = 60s) {
  Transport transport(make_ring_wire(session.world()), {.deadline = deadline});
  const int64_t ranks = session.ranks();
  const int64_t rank = session.rank();
  transport.open(both_ways(ranks, 5000, 1));
  const auto take = [&](int64_t flow, int64_t n) {
    transport.wait(std::array{Interest{Want::kMessage, flow, {n}}});
    transport.begin_receive(flow, {n}, 5000);
    transport.release(flow);
  };
  const auto give = [&](int64_t flow, int64_t n) {
    transport.wait(std::array{Interest{Want::kCredit, flow, {n}}});
    transport.begin_send(flow);
    transport.commit_send(flow, {n}, 5000);
  };
  for (int64_t n = 0; n < 1000; ++n) {
    if (rank > 0) take(2 * (rank - 1), n);
    if (rank + 1 < ranks) give(2 * rank, n);
    if (rank + 1 == ranks && n == 20) last_rank_does();
    if (rank + 1 < ranks) take(2 * rank + 1, n);
    if (rank > 0) give(2 * (rank - 1) + 1, n);
  }
}

void stop() { raise(SIGSTOP); }

void start_without_one(MpiSession& session) {
  Transport transport(make_ring_wire(session.world()), {.deadline = kShortDeadline});
  if (session.rank() == 1) stop();
  Agreement(transport).barrier("start");
}

void end_without_one(MpiSession& session) {
  if (session.rank() == 1) stop();
}

void other_plan(MpiSession& session) {
  Transport transport(make_ring_wire(session.world()));
  Agreement(transport).require_equal("plan", session.rank() == 2 ? "b" : "a");
}

const std::map<std::string, std::function<void(MpiSession&)>>& cases() {
  static const std::map<std::string, std::function<void(MpiSession&)>> all = {
      {"everything", everything},
      {"sharing", sharing},
      {"apart", apart},
      {"stopped", [](MpiSession& session) { until(session, stop, kShortDeadline); }},
      {"stopped_at_the_start", start_without_one},
      {"stopped_at_the_end", end_without_one},
      {"killed", [](MpiSession& session) { until(session, [] { raise(SIGKILL); }); }},
      {"left", [](MpiSession& session) { until(session, [] { _exit(0); }); }},
      {"error", [](MpiSession& session) { until(session, [] { fail(ErrorCode::kNumeric, "layer conv3 is not finite"); }); }},
      {"usage", [](MpiSession& session) { until(session, [] { fail(ErrorCode::kUsage, "no such model"); }); }},
      {"other_plan", other_plan},
  };
  return all;
}

int run(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "launch-command" && argc > 2) {
    fmt::print("{}\n", launch_command(std::stoll(argv[2]), std::thread::hardware_concurrency(), false, geteuid() == 0));
    return 0;
  }
  if (name == "status") return run_with_mpi({}, [](MpiSession& session) { return session.rank() == 0 ? 0 : 3; });
  if (!cases().contains(name)) {
    fmt::print(stderr, "no case \"{}\"\n", name);
    return 2;
  }
  const Nanoseconds deadline = name == "stopped_at_the_end" ? kShortDeadline : MpiSettings{}.deadline;
  return run_with_mpi({.deadline = deadline}, [&](MpiSession& session) {
    cases().at(name)(session);
    return 0;
  });
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::run(argc, argv); }
