#include "node/simulate/timeline.h"

#include "core/base/index.h"

namespace millrace::simulation {
namespace {

std::vector<size_t> sizes_of(std::span<const int32_t> processes) {
  std::vector<size_t> sizes(1);
  for (const int32_t process : processes) {
    if (sizes.size() <= to_size(process)) sizes.resize(to_size(process) + 1);
    ++item(sizes, process);
  }
  return sizes;
}

size_t groups_for(const std::vector<size_t>& sizes) {
  size_t groups = Tournament::groups_for(sizes.size());
  for (const size_t size : sizes) groups += Tournament::groups_for(size);
  return groups;
}

}  // namespace

Timeline::Timeline(std::span<const int32_t> processes)
    : places_(processes.size()),
      ids_(processes.size()),
      groups_(groups_for(sizes_of(processes))),
      all_(groups_.data(), sizes_of(processes).size()) {
  const std::vector<size_t> sizes = sizes_of(processes);
  Tournament::Group* groups = groups_.data() + Tournament::groups_for(sizes.size());
  size_t first_id = 0;
  for (const size_t size : sizes) {
    processes_.push_back({Tournament(groups, size), first_id});
    groups += Tournament::groups_for(size);
    first_id += size;
  }
  std::vector<int32_t> players(sizes.size());
  for (size_t id = 0; id < processes.size(); ++id) {
    const auto process = to_size(processes[id]);
    places_[id] = {processes[id], players[process]++};
    ids_[processes_[process].first_id + to_size(places_[id].player)] = static_cast<int32_t>(id);
  }
}

size_t Timeline::bytes() const {
  return places_.capacity() * sizeof(Place) + ids_.capacity() * sizeof(int32_t) + groups_.capacity() * sizeof(Tournament::Group) +
         processes_.capacity() * sizeof(LogicalProcess);
}

}  // namespace millrace::simulation
