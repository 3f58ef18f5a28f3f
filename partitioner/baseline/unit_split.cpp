#include "partitioner/baseline/unit_split.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();
constexpr double kSame = 1e-13;  // relative: what sums of a few terms may differ by

struct Range {
  int64_t from = 0, to = 0;
};

class SplitSearch {
 public:
  explicit SplitSearch(const UnitSplit& split) : split_(split), boards_(static_cast<int64_t>(split.boards)) {}

  std::optional<BestSplit> best() {
    const double alone = least_without_exchange();
    if (alone == kNoTime) return std::nullopt;
    BestSplit best{.seconds = kNoTime, .units = {}};
    for (int64_t most = (split_.cells + boards_ - 1) / boards_; most <= split_.cells - boards_ + 1; ++most) {
      double wait = kNoTime;
      for (size_t b = 0; b < split_.boards; ++b) wait = std::min(wait, split_.exchange(b, most));
      if (alone + wait >= best.seconds) break;
      improve(most, best);
    }
    if (best.seconds == kNoTime) return std::nullopt;
    return best;
  }

 private:
  // No split has a faster slowest board.
  double least_without_exchange() {
    double least = 0, most = kNoTime;
    for (const double guess : {1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9})
      if (most == kNoTime && hand_out(guess, split_.cells, false)) most = guess;
    if (most == kNoTime) return kNoTime;
    while (most - least > 1e-9 * most) {
      const double middle = (least + most) / 2;
      (hand_out(middle, split_.cells, false) ? most : least) = middle;
    }
    return least;
  }

  void improve(int64_t most, BestSplit& best) {
    double least = 0, bound = best.seconds;
    if (bound == kNoTime) {
      for (double guess = 1e-12; bound == kNoTime && guess < 1e10; guess *= 1e3)
        if (hand_out(guess, most, true)) bound = guess;
      if (bound == kNoTime) return;
    } else if (!hand_out(bound * (1 - 1e-12), most, true)) {
      return;
    }
    const auto take = [&](double asked) {
      const double seconds = seconds_of(cuts_);
      if (seconds < best.seconds) best = {seconds, units_of(cuts_)};
      bound = std::min(asked, seconds);
    };
    take(bound);
    while (bound - least > kSame * bound) {
      const double middle = (least + bound) / 2;
      if (middle <= least || middle >= bound) break;
      if (hand_out(middle, most, true))
        take(middle);
      else
        least = middle;
    }
  }

  // Board by board: how many cells may lie before each link, of those that end within `seconds`. Leaves the cuts.
  bool hand_out(double seconds, int64_t most, bool exchanged) {
    std::vector<Range> reach = {{0, 0}};
    std::vector<int64_t> caps;
    for (size_t b = 0; b < split_.boards; ++b) {
      caps.push_back(cap_of(b, seconds - (exchanged ? split_.exchange(b, most) : 0), most));
      Range next{reach.back().from + 1, reach.back().to + caps.back()};
      if (exchanged && b + 1 < split_.boards)
        for (const LinkLine& line : split_.links)
          if (line.link == b) narrow(line, seconds, next);
      if (next.from > next.to) return false;
      reach.push_back(next);
    }
    if (reach.back().from > split_.cells || reach.back().to < split_.cells) return false;
    cuts_.assign(split_.boards + 1, split_.cells);
    cuts_[0] = 0;
    for (size_t b = split_.boards - 1; b > 0; --b) {
      const int64_t even = split_.cells * static_cast<int64_t>(b) / boards_;
      cuts_[b] = std::clamp(even, std::max(reach[b].from, cuts_[b + 1] - caps[b]), std::min(reach[b].to, cuts_[b + 1] - 1));
    }
    return true;
  }
  int64_t cap_of(size_t board, double seconds, int64_t most) {
    int64_t fits = 0, beyond = most + 1;
    while (beyond - fits > 1) {
      const int64_t middle = (fits + beyond) / 2;
      (split_.seconds(board, middle) <= seconds ? fits : beyond) = middle;
    }
    return fits;
  }
  void narrow(const LinkLine& line, double seconds, Range& before) const {
    const double left = seconds * (1 + kSame) - line.base;
    if (line.slope == 0) {
      if (left < 0) before.to = before.from - 1;
    } else if (line.slope > 0) {
      before.to = std::min(before.to, static_cast<int64_t>(std::floor(std::clamp(left / line.slope * (1 + kSame), -1.0, 1e15))));
    } else {
      before.from = std::max(before.from, static_cast<int64_t>(std::ceil(std::clamp(left / line.slope * (1 - kSame), -1.0, 1e15))));
    }
  }

  double seconds_of(const std::vector<int64_t>& cuts) const {
    int64_t most = 0;
    for (size_t b = 0; b < split_.boards; ++b) most = std::max(most, cuts[b + 1] - cuts[b]);
    double seconds = 0;
    for (size_t b = 0; b < split_.boards; ++b)
      seconds = std::max(seconds, split_.seconds(b, cuts[b + 1] - cuts[b]) + split_.exchange(b, most));
    for (const LinkLine& line : split_.links)
      seconds = std::max(seconds, line.base + line.slope * static_cast<double>(cuts[line.link + 1]));
    return seconds;
  }
  std::vector<ChannelRange> units_of(const std::vector<int64_t>& cuts) const {
    std::vector<ChannelRange> units;
    for (size_t b = 0; b < split_.boards; ++b) units.push_back({cuts[b], cuts[b + 1]});
    return units;
  }

  const UnitSplit& split_;
  int64_t boards_;
  std::vector<int64_t> cuts_;
};

}  // namespace

std::optional<BestSplit> best_split(const UnitSplit& split) {
  if (split.boards < 1 || split.cells < static_cast<int64_t>(split.boards)) return std::nullopt;
  return SplitSearch(split).best();
}

}  // namespace millrace
