#include "core/plan/seats.h"

#include <map>
#include <string>

namespace millrace {

std::vector<int64_t> seats_of(const Cluster& cluster) {
  std::vector<int64_t> seats;
  std::map<std::string, int64_t> known;
  int64_t next = 0;
  for (const DeviceEntry& device : cluster.devices) {
    const int64_t seat = device.seat.empty() ? next : known.emplace(device.seat, next).first->second;
    seats.push_back(seat);
    next += seat == next ? 1 : 0;
  }
  return seats;
}

bool folds(const Cluster& cluster) {
  const std::vector<int64_t> seats = seats_of(cluster);
  for (size_t d = 0; d < seats.size(); ++d)
    if (seats[d] != static_cast<int64_t>(d)) return true;
  return false;
}

std::vector<int64_t> cables_of(const Cluster& cluster) {
  const std::vector<int64_t> seats = seats_of(cluster);
  std::vector<int64_t> cables;
  std::map<std::pair<int64_t, int64_t>, int64_t> known;
  for (size_t link = 0; link < cluster.links.size(); ++link)
    for (const bool backward : {false, true}) {
      const std::pair way = backward ? std::pair(seats[link + 1], seats[link]) : std::pair(seats[link], seats[link + 1]);
      cables.push_back(known.emplace(way, static_cast<int64_t>(cables.size())).first->second);
    }
  return cables;
}

}  // namespace millrace
