#include "partitioner/profile/stage_search.h"

#include <algorithm>
#include <functional>

#include "core/base/check.h"
#include "core/base/index.h"
#include "partitioner/profile/replication.h"

namespace millrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kBitsPerByte = 8;
constexpr int32_t kPassedOver = -2;  // in place of a choice's end

bool all_equal(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

// Copies of the parameters (their gradient counts as one) and of the activations that a device holds.
struct Copies {
  double parameters = 2;
  double activations = 1;
};
Copies copies_of(MemoryRule rule, int64_t in_flight) {
  const auto flight = static_cast<double>(in_flight);
  switch (rule) {
    case MemoryRule::kOneForwardOneBackward: return {2, flight};
    case MemoryRule::kStash: return {flight + 1, flight};
    case MemoryRule::kSum: break;
  }
  return {2, 1};
}

}  // namespace

std::vector<double> memory_order(const CutSpace& cuts) {
  std::vector<double> order;
  for (size_t cut = 0; cut < cuts.seconds.size(); ++cut) order.push_back(2 * cuts.parameter_bytes[cut] + cuts.activation_bytes[cut]);
  return order;
}

StageSearch::StageSearch(const CutSpace& cuts, const StageTask& task, bool picks_devices)
    : cuts_(cuts),
      task_(task),
      equal_devices_(all_equal(task.speeds) && all_equal(task.link_gbps)),
      picks_devices_(picks_devices),
      most_replicas_(task.replicate ? std::numeric_limits<int64_t>::max() : 1),
      memory_key_(memory_order(cuts)) {
  for (const double gbps : task.link_gbps) seconds_per_byte_.push_back(2 * kBitsPerByte / (gbps * 1e9));  // there and back
}

double StageSearch::stage_seconds(const StageCut& stage, int64_t remaining, int64_t used) const {
  const auto begin = to_size(stage.begin);
  const auto end = to_size(stage.end);
  const auto device = to_size(stage.device >= 0 ? stage.device : used - remaining);
  const double speed = task_.speeds.empty() ? 1 : task_.speeds[device];
  double compute = (cuts_.seconds[end] - cuts_.seconds[begin]) / speed;
  if (stage.replicas > 1)
    compute =
        replicated_seconds(compute, cuts_.parameter_bytes[end] - cuts_.parameter_bytes[begin], stage.replicas, 2 / seconds_per_byte_[0]);
  if (task_.objective == StageObjective::kCompute) return compute;
  double transfers = 0;
  const bool one_for_all = seconds_per_byte_.size() == 1;
  if (stage.begin > 0) transfers += cuts_.crossing_bytes[begin] * seconds_per_byte_[one_for_all ? 0 : device - 1];
  if (stage.end < cuts_.last()) transfers += cuts_.crossing_bytes[end] * seconds_per_byte_[one_for_all ? 0 : device];
  return task_.objective == StageObjective::kMax ? std::max(compute, transfers) : compute + transfers;
}

double StageSearch::stage_memory(const StageCut& stage, int64_t remaining) const {
  const Copies copies = copies_of(task_.memory_rule, micro_batches_in_flight(remaining, stage.replicas));
  const auto begin = to_size(stage.begin);
  const auto end = to_size(stage.end);
  return copies.parameters * (cuts_.parameter_bytes[end] - cuts_.parameter_bytes[begin]) +
         copies.activations * (cuts_.activation_bytes[end] - cuts_.activation_bytes[begin]);
}

void StageSearch::start(Tables& tables) const {
  tables.best.assign(1, std::vector<double>(to_size(cuts_.size()), kInfinity));
  tables.best[0].back() = 0;
  tables.choices.assign(1, {});
}

void StageSearch::add_row(Tables& tables, Aim aim, const Limits& limits, int64_t used) const {
  const auto remaining = static_cast<int64_t>(tables.best.size());
  std::vector<double> row(to_size(cuts_.size()), kInfinity);
  std::vector<Choice> choices(row.size());
  const bool time_alone = aim == Aim::kSeconds;
  const bool memory_alone = aim == Aim::kMemoryAlone;
  const std::vector<double>& amount = memory_alone ? memory_key_ : cuts_.seconds;
  const double speed = memory_alone || task_.speeds.empty() ? 1 : item(task_.speeds, used - remaining);
  // On the first device, nothing may be left before.
  const int64_t begins = remaining == used ? 1 : cuts_.last();
  for (int64_t begin = 0; begin < begins; ++begin) {
    double best = kInfinity;
    Choice choice;
    for (int64_t replicas = 1; replicas <= std::min(remaining, most_replicas_); ++replicas) {
      const std::vector<double>& rest = item(tables.best, remaining - replicas);
      const double rate = memory_alone ? 1 : speed * static_cast<double>(replicas);
      // On the last devices, only everything that is left will do.
      for (int64_t end = remaining == replicas ? cuts_.last() : begin + 1; end <= cuts_.last(); ++end) {
        const double least = (fast_item(amount, end) - fast_item(amount, begin)) / rate;
        if (memory_alone ? least > limits.memory || least >= best : least > limits.seconds || (time_alone && least >= best)) break;
        const double behind = fast_item(rest, end);
        if (behind >= best || !cuts_.precedes(begin, end)) continue;
        const StageCut stage{begin, end, replicas};
        const double memory = memory_alone || limits.memory < kInfinity || aim == Aim::kMemory ? stage_memory(stage, remaining) : 0;
        if (memory > limits.memory) continue;
        double value = 0;
        if (memory_alone) {
          value = std::max(memory, behind);
        } else {
          const double seconds = stage_seconds(stage, remaining, used);
          if (seconds > limits.seconds) continue;
          if (aim == Aim::kSeconds) value = std::max(seconds, behind);
          if (aim == Aim::kMemory) value = std::max(memory, behind);
          if (aim == Aim::kTraffic) {
            const double parameters = fast_item(cuts_.parameter_bytes, end) - fast_item(cuts_.parameter_bytes, begin);
            const double crossing = begin == 0 ? 0 : fast_item(cuts_.crossing_bytes, begin);
            value = 2 * crossing + 2 * static_cast<double>(replicas - 1) * parameters + behind;
          }
        }
        if (value >= best) continue;
        best = value;
        choice = {static_cast<int32_t>(end), static_cast<int32_t>(replicas)};
      }
    }
    item(row, begin) = best;
    item(choices, begin) = choice;
  }
  tables.best.push_back(std::move(row));
  tables.choices.push_back(std::move(choices));
}

StageSearch::Found StageSearch::search(Aim aim, const Limits& limits, Tables* keep) const {
  if (picks_devices_ && aim != Aim::kMemoryAlone) return search_picking(aim, limits, keep);
  Found found;
  Tables tables;
  const int64_t fewest = task_.exactly ? task_.devices : 1;
  // Equal devices: one table holds the answers for every number of them. Else the numbering shifts with the number used.
  const bool one_table = equal_devices_ || aim == Aim::kMemoryAlone;
  for (int64_t used = one_table ? task_.devices : fewest; used <= task_.devices; ++used) {
    start(tables);
    while (static_cast<int64_t>(tables.best.size()) <= used) add_row(tables, aim, limits, used);
    bool better = false;
    for (int64_t count = one_table ? fewest : used; count <= used; ++count) {
      const double value = item(tables.best, count)[0];
      if (value >= found.value) continue;
      found = {value, count, used};
      better = true;
    }
    if (better && keep != nullptr) *keep = one_table ? std::move(tables) : tables;
  }
  return found;
}

StageSearch::Found StageSearch::search_picking(Aim aim, const Limits& limits, Tables* keep) const {
  Found found;
  const int64_t devices = task_.devices;
  const std::vector<double> none(to_size(cuts_.size()), kInfinity);
  std::vector<std::vector<double>> fewer(to_size(devices + 1), none);  // by the next device, of one device less
  for (std::vector<double>& row : fewer) row.back() = 0;
  const int64_t most = std::min(devices, cuts_.last());
  if (keep != nullptr) keep->choices.assign(picked(most + 1, 0), {});
  for (int64_t remaining = 1; remaining <= most; ++remaining) {
    std::vector<std::vector<double>> rows(to_size(devices + 1), none);
    for (int64_t next = devices - remaining; next >= 0; --next) {
      Tables step;
      step.best.resize(to_size(remaining));
      step.best.back() = item(fewer, next + 1);
      add_row(step, aim, limits, next + remaining);
      std::vector<double>& row = step.best.back();
      const std::vector<double>& without = item(rows, next + 1);
      for (size_t begin = 0; begin < row.size(); ++begin) {
        if (without[begin] >= row[begin]) continue;
        row[begin] = without[begin];
        step.choices.back()[begin] = {kPassedOver, 0};
      }
      item(rows, next) = std::move(row);
      if (keep != nullptr) keep->choices[picked(remaining, next)] = std::move(step.choices.back());
    }
    if (rows[0][0] < found.value) found = {rows[0][0], remaining, devices};
    fewer = std::move(rows);
  }
  return found;
}

StageAnswer StageSearch::read_picked(const Tables& tables, const Found& found) const {
  StageAnswer answer;
  answer.devices = found.used;
  int64_t begin = 0;
  int64_t remaining = found.used;
  for (int64_t next = 0; remaining > 0; ++next) {
    const Choice& choice = item(tables.choices[picked(remaining, next)], begin);
    if (choice.end == kPassedOver) continue;
    MILLRACE_CHECK(choice.end > begin, "no stage was chosen behind cut {} with {} devices left", begin, remaining);
    const StageCut stage{begin, choice.end, choice.replicas, next};
    answer.seconds = std::max(answer.seconds, stage_seconds(stage, remaining, found.table));
    answer.memory_bytes = std::max(answer.memory_bytes, stage_memory(stage, remaining));
    answer.stages.push_back(stage);
    begin = choice.end;
    --remaining;
  }
  return answer;
}

StageAnswer StageSearch::read(const Tables& tables, const Found& found) const {
  StageAnswer answer;
  answer.devices = found.used;
  int64_t begin = 0;
  for (int64_t remaining = found.used; remaining > 0;) {
    const Choice& choice = item(item(tables.choices, remaining), begin);
    MILLRACE_CHECK(choice.end > begin, "no stage was chosen behind cut {} with {} devices left", begin, remaining);
    const StageCut stage{begin, choice.end, choice.replicas};
    answer.seconds = std::max(answer.seconds, stage_seconds(stage, remaining, found.table));
    answer.memory_bytes = std::max(answer.memory_bytes, stage_memory(stage, remaining));
    answer.stages.push_back(stage);
    begin = choice.end;
    remaining -= choice.replicas;
  }
  return answer;
}

// Differences of sums are not equal to the last bit where their terms are.
double StageSearch::slack() const {
  const double slowest = task_.speeds.empty() ? 1 : *std::min_element(task_.speeds.begin(), task_.speeds.end());
  return 1e-13 * cuts_.seconds.back() / slowest;
}

std::optional<StageAnswer> StageSearch::fastest(double at_most) {
  Limits limits;
  limits.seconds = at_most + slack();
  if (task_.memory_bytes > 0) limits.memory = task_.memory_bytes;
  const Found quickest = search(Aim::kSeconds, limits, nullptr);
  if (quickest.value == kInfinity) return std::nullopt;
  limits.seconds = quickest.value * (1 + 1e-15) + slack();
  limits.memory = search(Aim::kMemory, limits, nullptr).value;
  Tables tables;
  const Found found = search(Aim::kTraffic, limits, &tables);
  return picks_devices_ ? read_picked(tables, found) : read(tables, found);
}

std::optional<StageAnswer> StageSearch::least_full() {
  Tables tables;
  const Found found = search(Aim::kMemoryAlone, {}, &tables);
  if (found.value == kInfinity) return std::nullopt;
  return read(tables, found);
}

int64_t StageSearch::smallest_count(int64_t most) {
  Tables tables;
  start(tables);
  for (int64_t count = 1; count <= most; ++count) {
    add_row(tables, Aim::kMemoryAlone, {kInfinity, task_.memory_bytes}, most + 1);
    if (tables.best.back()[0] <= task_.memory_bytes) return count;
  }
  return 0;
}

}  // namespace millrace
