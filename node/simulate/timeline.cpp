#include "node/simulate/timeline.h"

#include "core/base/index.h"

namespace millrace::simulation {
namespace {

std::vector<size_t> sizes_of(std::span<const int32_t> crews) {
  std::vector<size_t> sizes(1);
  for (const int32_t crew : crews) {
    if (sizes.size() <= to_size(crew)) sizes.resize(to_size(crew) + 1);
    ++item(sizes, crew);
  }
  return sizes;
}

size_t groups_for(const std::vector<size_t>& sizes) {
  size_t groups = Tournament::groups_for(sizes.size());
  for (const size_t size : sizes) groups += Tournament::groups_for(size);
  return groups;
}

}  // namespace

Timeline::Timeline(std::span<const int32_t> crews)
    : places_(crews.size()), ids_(crews.size()), groups_(groups_for(sizes_of(crews))), all_(groups_.data(), sizes_of(crews).size()) {
  const std::vector<size_t> sizes = sizes_of(crews);
  Tournament::Group* groups = groups_.data() + Tournament::groups_for(sizes.size());
  size_t first_id = 0;
  for (const size_t size : sizes) {
    crews_.push_back({Tournament(groups, size), first_id});
    groups += Tournament::groups_for(size);
    first_id += size;
  }
  std::vector<int32_t> players(sizes.size());
  for (size_t id = 0; id < crews.size(); ++id) {
    const auto crew = to_size(crews[id]);
    places_[id] = {crews[id], players[crew]++};
    ids_[crews_[crew].first_id + to_size(places_[id].player)] = static_cast<int32_t>(id);
  }
}

size_t Timeline::bytes() const {
  return places_.capacity() * sizeof(Place) + ids_.capacity() * sizeof(int32_t) + groups_.capacity() * sizeof(Tournament::Group) +
         crews_.capacity() * sizeof(Crew);
}

}  // namespace millrace::simulation
