#include "core/decode/edit_distance.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace millrace {

int64_t edit_distance(std::span<const int32_t> a, std::span<const int32_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  // Of all beginnings of b from the beginning of a seen so far.
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (const int32_t label : a) {
    int64_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t replaced = diagonal + (label == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace millrace
