// Parameters stored away from the device that uses them: passes from home to user, gradients back, updates at home.
#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/home_routes.h"
#include "core/plan/parts.h"
#include "core/plan/seats.h"
#include "node/simulate/compile_context.h"

namespace millrace::simulation {
namespace {

// A pass travels in pieces, so that rows need not wait behind all of it.
constexpr int64_t kBitsOfChunk = 65536;
constexpr int64_t kMostChunks = 64;
constexpr double kShareOfPeriod = 0.75;

class HomeCompiler {
 public:
  explicit HomeCompiler(CompileContext& context) : context_(context) {}

  void compile(const HomeRoute& route) {
    const ParameterHome& home = context_.plan.homes[route.home];
    const int64_t low = std::min(home.home, home.user);
    const int64_t high = std::max(home.home, home.user);
    if (high < context_.network.first_device || low >= context_.network.end_device) return;
    const int64_t shard = context_.shard_of(home);
    const int32_t chunks = chunks_of(home.count, context_.plan);
    const auto passes = static_cast<int64_t>(context_.schedule_of(home.user).pass_version.size());
    for (int64_t device = low + 1; device < high; ++device) {
      if (!context_.here(device)) continue;
      relay(device, route.parameters, home.home < home.user, chunks, passes);
      if (!route.gradients.empty()) relay(device, route.gradients, home.user < home.home, chunks, context_.micro_batches);
    }
    if (context_.here(home.home)) serve(home, route, chunks, passes);
    if (context_.here(home.user)) use(home, route, shard, chunks);
  }

 private:
  // The link on which something leaves `device` towards one side.
  static int64_t link_ahead(int64_t device, bool downstream) { return downstream ? device : device - 1; }
  int64_t across(const std::vector<int64_t>& way, int64_t link) const { return flow_across(context_.plan, way, link); }

  void relay(int64_t device, const std::vector<int64_t>& way, bool downstream, int32_t chunks, int64_t cycles) {
    const int32_t arriving = context_.stream_of_flow(across(way, link_ahead(device, !downstream)));
    const int32_t station = add_leaving(context_, device, across(way, link_ahead(device, downstream)), chunks, cycles);
    context_.builder.read(station, chunk_input(arriving, chunks, context_.fifo(arriving)));
  }

  Input chunk_input(int32_t stream, int32_t chunks, int64_t slack) {
    Input input;
    input.stream = stream;
    input.table = context_.builder.table(identity_rows(chunks));
    input.per_cycle = chunks;
    input.slack = slack;
    return input;
  }

  // Chunks enter a link evenly, a little faster than the pipeline asks for, so that rows do not wait behind a burst; as fast as it takes
  // them where an action waits for the whole pass.
  void pace(Station& station, bool at_once) const {
    const FlowState& flow = item(context_.network.flows, station.flow);
    station.timed = true;
    const int64_t service = flow.services[0].picoseconds + (flow.services[0].part > 0 ? 1 : 0);
    station.duration = service;
    if (at_once) return;
    const Flow& planned = item(context_.plan.flows, flow.plan_flow);
    const auto passes = static_cast<double>(std::max<int64_t>(1, planned.passes_per_mini_batch));
    const double even = kShareOfPeriod * static_cast<double>(context_.pace.period) * static_cast<double>(context_.plan.mini_batch) / passes;
    station.duration = std::max(service, static_cast<int64_t>(even / station.units));
  }

  void serve(const ParameterHome& home, const HomeRoute& route, int32_t chunks, int64_t passes) {
    const DeviceSchedule& schedule = context_.schedule_of(home.user);
    const bool downstream = home.home < home.user;
    Station update;
    update.kind = StationKind::kUpdate;
    update.device = static_cast<int32_t>(home.home);
    update.parameters = home.count;
    update.cycles = static_cast<int64_t>(schedule.gradients_before.size());
    const int32_t updates = context_.builder.stream(1);
    const int32_t updating = context_.builder.station(update, updates);
    Input gradients;
    const bool made_here = route.gradients.empty();  // by G of this device, of a record
    if (made_here && !context_.gradient_counts.contains({home.home, -1}))
      fail(ErrorCode::kUnavailable,
           "device {} has engines of its own and would make the gradients of the steps on device {}: a CPU or GPU does", home.home,
           home.user);
    gradients.stream = made_here ? context_.gradient_counts.at({home.home, -1})
                                 : context_.stream_of_flow(across(route.gradients, link_ahead(home.home, downstream)));
    if (!schedule.gradients_before.empty()) {
      gradients.schedule = context_.builder.schedule(schedule.gradients_before);
      gradients.factor = made_here ? 1 : chunks;
      gradients.whole = true;
      context_.builder.read(updating, gradients);
    }
    const int32_t leaving = add_leaving(context_, home.home, across(route.parameters, link_ahead(home.home, downstream)), chunks, passes);
    Station& pass = item(context_.network.stations, leaving);
    pass.kind = StationKind::kPass;
    pace(pass, schedule.spec.loads_every_pass);
    Input version;
    version.stream = updates;
    version.schedule = context_.builder.schedule(schedule.pass_version);
    version.whole = true;
    version.cause = Cause::kUpdate;
    const PairPace& pair = context_.options.pair;
    if (!schedule.spec.loads_every_pass || (!pair.single_memory && pair.load_picoseconds == 0))
      return context_.builder.read(leaving, version);
    const int32_t ready = context_.builder.stream(1);
    const int32_t set_up = add_set_up(home.home, passes, ready);
    context_.builder.read(set_up, version);
    if (pair.single_memory) wait_for_card(home.user, set_up, passes);
    std::vector<int64_t> each(to_size(passes));
    std::iota(each.begin(), each.end(), int64_t{1});
    wait_for(leaving, ready, each, 1);
  }

  // What is done before a load's first words leave.
  int32_t add_set_up(int64_t device, int64_t passes, int32_t ready) {
    Station station;
    station.kind = StationKind::kPass;
    station.timed = true;
    station.device = static_cast<int32_t>(device);
    station.cycles = passes;
    station.duration = context_.options.pair.load_picoseconds;
    return context_.builder.station(station, ready);
  }

  // Passes of a place follow what its card does before, in the order of FARNN's training step: F of place after place, then E back.
  void wait_for_card(int64_t user, int32_t station, int64_t passes) {
    const Plan& plan = context_.plan;
    if (plan.micro_batches() != 1 || !drains(plan.alignment) ||
        context_.network.end_device - context_.network.first_device < plan.devices())
      fail(ErrorCode::kUnavailable,
           "a single memory of weights is simulated with one micro-batch between updates, a drained alignment and on one rank");
    const std::vector<int64_t> seats = seats_of(plan.cluster);
    int64_t before = -1, behind = -1;  // places of the same card that load
    for (int64_t device = 0; device < plan.devices(); ++device) {
      if (device == user || item(seats, device) != item(seats, user) || !loads_every_pass(plan, device)) continue;
      if (device < user) before = device;
      if (device > user && behind < 0) behind = device;
    }
    // By pass: an F and an E of each mini-batch.
    std::vector<int64_t> forwards(to_size(passes)), errors(to_size(passes));
    for (size_t pass = 0; pass < forwards.size(); ++pass) {
      forwards[pass] = static_cast<int64_t>(pass / 2 + 1);
      errors[pass] = static_cast<int64_t>((pass + 1) / 2);
    }
    const auto chunks = static_cast<int32_t>(plan.time_chunks);
    if (before >= 0) wait_for(station, way_of(before, true).out, forwards, chunks);
    wait_for(station, behind >= 0 ? way_of(behind, false).out : way_of(user, true).out, errors, chunks);
  }
  const TurnWay& way_of(int64_t device, bool forward) const {
    const auto turns = std::ranges::find_if(
        context_.network.stations, [&](const Station& station) { return station.kind == StationKind::kTurns && station.device == device; });
    return context_.network.turns_of(*turns).way(forward);
  }
  // By pass so many, of so many units each.
  void wait_for(int32_t station, int32_t stream, const std::vector<int64_t>& needs, int32_t units) {
    Input input;
    input.stream = stream;
    input.schedule = context_.builder.schedule(needs);
    input.factor = units;
    input.whole = true;
    input.cause = Cause::kParameters;
    context_.builder.read(station, input);
  }

  void use(const ParameterHome& home, const HomeRoute& route, int64_t shard, int32_t chunks) {
    const bool from_upstream = home.home < home.user;
    const int32_t arriving = context_.stream_of_flow(across(route.parameters, link_ahead(home.user, !from_upstream)));
    const DeviceSchedule& schedule = context_.schedule_of(home.user);
    const bool turns = item(context_.pace.turns, home.user);
    const auto local = to_size(home.user - context_.network.first_device);
    for (int32_t s = context_.first_station[local]; s < context_.first_station[local + 1]; ++s) {
      const Station& station = item(context_.network.stations, s);
      if (station.kind == StationKind::kTurns) {
        read_passes(s, arriving, schedule.forward_pass, chunks, 1, false);
        read_passes(s, arriving, schedule.error_pass, chunks, 1, true);
      } else if (station.shard == shard && station.kind == StationKind::kForward) {
        read_passes(s, arriving, schedule.forward_pass, chunks, context_.plan.micro_batch, false);
      } else if (station.shard == shard && station.kind == StationKind::kErrorBack) {
        read_passes(s, arriving, schedule.error_pass, chunks, context_.plan.micro_batch, false);
      }
    }
    const auto count = context_.gradient_counts.find({home.user, turns ? -1 : shard});
    if (count == context_.gradient_counts.end() || route.gradients.empty()) return;
    const int32_t leaving =
        add_leaving(context_, home.user, across(route.gradients, link_ahead(home.user, !from_upstream)), chunks, context_.micro_batches);
    Station& station = item(context_.network.stations, leaving);
    station.kind = StationKind::kReturn;
    pace(station, false);
    const auto samples = turns ? 1 : static_cast<int32_t>(context_.plan.micro_batch);
    Input input;
    input.stream = count->second;
    input.table = context_.builder.table(RowTable(to_size(chunks), samples));
    input.per_cycle = samples;
    input.whole = true;
    context_.builder.read(leaving, input);
  }

  void read_passes(int32_t station, int32_t stream, const std::vector<int64_t>& needs, int32_t chunks, int64_t divisor, bool error) {
    Input input;
    input.stream = stream;
    input.schedule = context_.builder.schedule(needs);
    input.divisor = static_cast<int32_t>(divisor);
    input.factor = chunks;
    input.whole = true;
    input.cause = Cause::kParameters;
    // A pass is held until the E and the F that it serves are both done: a window apart, and one more comes meanwhile.
    const int64_t window = item(context_.plan.windows, item(context_.network.stations, station).device);
    input.slack = (window + 1) * chunks;
    input.base = error ? kOfError : kOfForward;
    context_.builder.read(station, input);
  }

  CompileContext& context_;
};

}  // namespace

int32_t chunks_of(int64_t elements, const Plan& plan) {
  const int64_t bits = elements * bits_of(plan.arithmetic.wire);
  return static_cast<int32_t>(std::min(elements, std::clamp<int64_t>(bits / kBitsOfChunk, 1, kMostChunks)));
}

void compile_homes(CompileContext& context) {
  HomeCompiler compiler(context);
  for (const HomeRoute& route : home_routes(context.plan)) compiler.compile(route);
}

}  // namespace millrace::simulation
