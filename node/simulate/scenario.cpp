#include "node/simulate/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/random.h"

namespace millrace {
namespace {

__extension__ using Wide = __int128;

constexpr int64_t kPicosecondsOfASecond = 1'000'000'000'000;
constexpr double kThousandths = 1000;
constexpr double kMostFactor = 1e6;
constexpr int64_t kMostLatency = 1'000 * kPicosecondsOfASecond;
constexpr int kBitsOfMessages = 40;

int64_t capped(Wide value) { return static_cast<int64_t>(std::min<Wide>(value, int64_t{1} << 60)); }

// Rounded up: a message is there when its last bit is.
Wide message_time(Wide bits, const ReplicaLink& link) {
  return (bits * kPicosecondsOfASecond + link.bits_per_second - 1) / link.bits_per_second + link.latency_picoseconds;
}

Wide ring_steps(int64_t ranks, int64_t bits, const ReplicaLink& link) {
  return (ranks - 1) * message_time((bits + ranks - 1) / ranks, link);
}

Wide all_reduce(AllReduce method, int64_t ranks, int64_t bits, const ReplicaLink& link) {
  if (ranks < 2) return 0;
  if (method == AllReduce::kRing) return 2 * ring_steps(ranks, bits, link);
  return Wide{2} * std::bit_width(static_cast<uint64_t>(ranks - 1)) * message_time(bits, link);
}

void check_link(const ReplicaLink& link, const char* which) {
  if (link.bits_per_second <= 0) fail(ErrorCode::kUsage, "links {} carry {} bits a second; give a bandwidth", which, link.bits_per_second);
  if (link.latency_picoseconds < 0 || link.latency_picoseconds > kMostLatency)
    fail(ErrorCode::kUsage, "links {} have a latency of {} ps; it lies between 0 and {} s", which, link.latency_picoseconds,
         kMostLatency / kPicosecondsOfASecond);
}

void check_replicas(const Plan& plan, const Replicas& replicas, int64_t samples) {
  if (replicas.count < 1) fail(ErrorCode::kUsage, "{} replicas: one at least", replicas.count);
  if (replicas.count == 1) return;
  check_link(replicas.outer, replicas.group_size > 0 ? "between groups of replicas" : "between replicas");
  if (replicas.group_size > 0) {
    if (replicas.group_size < 2 || replicas.group_size >= replicas.count || replicas.count % replicas.group_size != 0)
      fail(ErrorCode::kUsage, "{} replicas do not make groups of {}; take a divisor between 2 and {}", replicas.count, replicas.group_size,
           replicas.count / 2);
    check_link(replicas.inner, "within a group of replicas");
  }
  if (samples < 2 * plan.mini_batch)
    fail(ErrorCode::kUsage, "{} samples are fewer than two mini-batches of {}: what replicas cost is not in the rate; simulate {} or more",
         samples, plan.mini_batch, 4 * plan.mini_batch);
}

}  // namespace

std::string_view name_of(AllReduce method) { return method == AllReduce::kRing ? "ring" : "tree"; }

AllReduce all_reduce_from(std::string_view name) {
  if (name == "ring") return AllReduce::kRing;
  if (name == "tree") return AllReduce::kTree;
  fail(ErrorCode::kUsage, "all-reduce \"{}\" does not exist{}", name, suggestion(name, {"ring", "tree"}));
}

int64_t all_reduce_picoseconds(const Replicas& replicas, int64_t bits) {
  if (replicas.count < 2 || bits <= 0) return 0;
  if (replicas.group_size < 2) return capped(all_reduce(replicas.method, replicas.count, bits, replicas.outer));
  const int64_t group = replicas.group_size;
  return capped(2 * ring_steps(group, bits, replicas.inner) +
                all_reduce(replicas.method, replicas.count / group, (bits + group - 1) / group, replicas.outer));
}

std::vector<int64_t> slowness_of(const SimulationScenario& scenario, int64_t devices) {
  std::vector<int64_t> slowness(to_size(devices), static_cast<int64_t>(kThousandths));
  if (scenario.straggler_share > 0) {
    const Philox draw(scenario.seed, stream_id("simulate", "stragglers"));
    constexpr uint64_t kParts = 1'000'000;
    const auto struck = static_cast<uint64_t>(std::llround(scenario.straggler_share * static_cast<double>(kParts)));
    const auto range = static_cast<uint64_t>(std::llround((scenario.straggler_most - 1) * kThousandths));
    for (uint64_t d = 0; d < slowness.size(); ++d)
      if (draw.below(2 * d, kParts) < struck) slowness[d] += static_cast<int64_t>(draw.below(2 * d + 1, range + 1));
  }
  for (const Straggler& straggler : scenario.stragglers) item(slowness, straggler.device) = std::llround(straggler.factor * kThousandths);
  return slowness;
}

Plan with_stragglers(Plan plan, const SimulationScenario& scenario) {
  const std::vector<int64_t> slowness = slowness_of(scenario, plan.devices());
  for (Shard& shard : plan.shards)
    for (PhaseEngine& engine : shard.phases)
      engine.picoseconds_per_unit =
          capped(static_cast<Wide>(engine.picoseconds_per_unit) * item(slowness, shard.device) / static_cast<int64_t>(kThousandths));
  return plan;
}

int64_t jitter_of(const SimulationScenario& scenario, int64_t flow, int64_t index) {
  static const uint64_t kStream = stream_id("simulate", "jitter");
  const auto element = (static_cast<uint64_t>(flow) << kBitsOfMessages) + static_cast<uint64_t>(index);
  return static_cast<int64_t>(Philox(scenario.seed, kStream).below(element, static_cast<uint64_t>(scenario.jitter_picoseconds) + 1));
}

std::vector<int64_t> column_bits(const Plan& plan) {
  std::vector<int64_t> bits(to_size(plan.devices()));
  for (const ParameterHome& home : plan.homes) item(bits, home.home) += home.count * bits_of(plan.arithmetic.wire);
  return bits;
}

void check_scenario(const Plan& plan, const SimulationScenario& scenario, int64_t samples) {
  std::set<int64_t> named;
  for (const Straggler& straggler : scenario.stragglers) {
    if (straggler.device < 0 || straggler.device >= plan.devices())
      fail(ErrorCode::kUsage, "straggler {}: the ring has devices 0 to {}", straggler.device, plan.devices() - 1);
    if (!(straggler.factor >= 1.0 / kThousandths && straggler.factor <= kMostFactor))
      fail(ErrorCode::kUsage, "straggler {}: a device takes from 0.001 to {:g} times as long, not {:g}", straggler.device, kMostFactor,
           straggler.factor);
    if (std::llround(straggler.factor * kThousandths) == static_cast<int64_t>(kThousandths))
      fail(ErrorCode::kUsage, "straggler {}: a factor of 1 has no effect; leave it out", straggler.device);
    if (!named.insert(straggler.device).second)
      fail(ErrorCode::kUsage, "straggler {} is given twice; leave one of the two out", straggler.device);
  }
  if (!(scenario.straggler_share >= 0 && scenario.straggler_share <= 1))
    fail(ErrorCode::kUsage, "a share of {:g} of the devices are stragglers; it lies between 0 and 1", scenario.straggler_share);
  if (scenario.straggler_share > 0) {
    if (!(scenario.straggler_most > 1 && scenario.straggler_most <= kMostFactor))
      fail(ErrorCode::kUsage, "stragglers take at most {:g} times as long; that lies above 1, up to {:g}", scenario.straggler_most,
           kMostFactor);
    const std::vector<int64_t> slowness = slowness_of(scenario, plan.devices());
    if (std::all_of(slowness.begin(), slowness.end(), [](int64_t slow) { return slow == static_cast<int64_t>(kThousandths); }))
      fail(ErrorCode::kUsage,
           "with seed {} none of {} devices is a straggler, so that the share has no effect; take another seed or a larger share",
           scenario.seed, plan.devices());
  }
  if (scenario.jitter_picoseconds < 0 || scenario.jitter_picoseconds > kMostLatency)
    fail(ErrorCode::kUsage, "a jitter of {} ps; it lies between 0 and {} s", scenario.jitter_picoseconds,
         kMostLatency / kPicosecondsOfASecond);
  if (scenario.jitter_picoseconds > 0 && plan.links.empty())
    fail(ErrorCode::kUsage, "jitter has no effect on one device, which has no links; leave it out");
  check_replicas(plan, scenario.replicas, samples);
}

}  // namespace millrace
