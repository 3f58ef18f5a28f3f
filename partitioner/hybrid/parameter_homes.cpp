#include "partitioner/hybrid/parameter_homes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/index.h"

namespace millrace {
namespace {

// A slice on its way upstream.
struct Pending {
  const HomeProblem::Weights* weights = nullptr;
  int64_t offset = 0;
  int64_t count = 0;
  double storage_per_element() const { return weights->storage / static_cast<double>(weights->elements); }
};

struct Filling {
  Homes homes;
  std::vector<Pending> homeless;
};

// Of so many elements of a size those that may stay, by what a device is to keep.
int64_t allowed_to_stay(KeptWeights& kept, const std::string& memory, double unit, int64_t count) {
  for (KeptSize& size : kept) {
    if (size.memory != memory || !is_unit(size.unit, unit)) continue;
    const int64_t stays = std::min(count, size.count);
    size.count -= stays;
    return stays;
  }
  return 0;
}

// `kept`: what every device is to keep; none: as much as it has room for.
Filling place(const HomeProblem& problem, double share, std::vector<KeptWeights> kept = {}) {
  const auto by_user = [](const HomeProblem::Weights& weights) { return weights.user; };
  const size_t devices = problem.devices.size();
  Filling result;
  Homes& homes = result.homes;
  homes.used.resize(devices);
  homes.over_link.resize(devices > 0 ? devices - 1 : 0);
  std::vector<Pending>& pending = result.homeless;
  for (size_t d = devices; d-- > 0;) {
    const HomeProblem::Device& device = problem.devices[d];
    double room = share * device.capacity - device.fixed;
    homes.used[d] = device.fixed;
    // Its own first: the heads of its slices stay, the tails leave.
    std::vector<Pending> leaving;
    for (const HomeProblem::Weights& weights : std::ranges::equal_range(problem.weights, static_cast<int64_t>(d), {}, by_user)) {
      if (weights.elements == 0) continue;
      const Pending whole{&weights, 0, weights.elements};
      const double unit = whole.storage_per_element();
      int64_t stays = weights.elements;
      if (unit > 0) stays = std::clamp(static_cast<int64_t>(std::floor(std::max(room, 0.0) / unit)), int64_t{0}, weights.elements);
      if (!kept.empty()) stays = allowed_to_stay(kept[d], device.memory, unit, stays);
      homes.used[d] += unit * static_cast<double>(stays);
      room -= unit * static_cast<double>(stays);
      if (stays < weights.elements) leaving.push_back({&weights, stays, weights.elements - stays});
    }
    // Then what comes from downstream, nearest user first.
    for (size_t i = pending.size(); i-- > 0;) {
      Pending& slice = pending[i];
      const double unit = slice.storage_per_element();
      if (fast_item(problem.devices, slice.weights->user).memory != device.memory) continue;
      int64_t taken = std::clamp(static_cast<int64_t>(std::floor(std::max(room, 0.0) / unit)), int64_t{0}, slice.count);
      if (!kept.empty()) taken = allowed_to_stay(kept[d], device.memory, unit, taken);
      if (taken == 0) continue;
      homes.remote.push_back(
          {slice.weights->layer, slice.weights->tensor, slice.offset, taken, static_cast<int64_t>(d), slice.weights->user});
      homes.used[d] += unit * static_cast<double>(taken);
      room -= unit * static_cast<double>(taken);
      slice.offset += taken;
      slice.count -= taken;
    }
    std::erase_if(pending, [](const Pending& slice) { return slice.count == 0; });
    pending.insert(pending.end(), leaving.begin(), leaving.end());
    if (d > 0)
      for (const Pending& slice : pending) homes.over_link[d - 1] += slice.count;
    if (device.capacity > 0) homes.peak = std::max(homes.peak, homes.used[d] / device.capacity);
  }
  std::sort(homes.remote.begin(), homes.remote.end(), [](const ParameterHome& a, const ParameterHome& b) {
    return std::tie(a.user, a.layer, a.offset) < std::tie(b.user, b.layer, b.offset);
  });
  return result;
}

}  // namespace

std::optional<Homes> place_homes(const HomeProblem& problem, double share) {
  for (const HomeProblem::Device& device : problem.devices)
    if (device.fixed > share * device.capacity) return std::nullopt;
  Filling placement = place(problem, share);
  if (!placement.homeless.empty()) return std::nullopt;
  return std::move(placement.homes);
}

bool is_unit(double one, double other) { return std::abs(one - other) <= 1e-9 * std::max(one, other); }

std::optional<Homes> homes_as_kept(const HomeProblem& problem, std::vector<KeptWeights> kept) {
  Filling placement = place(problem, 1, std::move(kept));
  if (!placement.homeless.empty()) return std::nullopt;
  return std::move(placement.homes);
}

Homes local_homes(const HomeProblem& problem) {
  Homes homes;
  homes.over_link.resize(problem.devices.empty() ? 0 : problem.devices.size() - 1);
  for (const HomeProblem::Device& device : problem.devices) homes.used.push_back(device.fixed);
  for (const HomeProblem::Weights& weights : problem.weights) fast_item(homes.used, weights.user) += weights.storage;
  for (size_t d = 0; d < problem.devices.size(); ++d)
    if (problem.devices[d].capacity > 0) homes.peak = std::max(homes.peak, homes.used[d] / problem.devices[d].capacity);
  return homes;
}

HomeShortage shortage_of_homes(const HomeProblem& problem, double share) {
  HomeShortage shortage;
  const Filling placement = place(problem, share);
  for (const Pending& slice : placement.homeless) {
    shortage.storage += slice.storage_per_element() * static_cast<double>(slice.count);
    shortage.device = slice.weights->user;
  }
  for (size_t d = 0; d < problem.devices.size(); ++d) {
    const double over = problem.devices[d].fixed - share * problem.devices[d].capacity;
    if (over <= 0) continue;
    shortage.storage += over;
    shortage.device = static_cast<int64_t>(d);
  }
  return shortage;
}

}  // namespace millrace
