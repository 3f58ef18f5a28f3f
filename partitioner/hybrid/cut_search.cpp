#include "partitioner/hybrid/cut_search.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {
namespace {

// From the first device on: how many ends of each are kept, and whether of different channels. Mostly one is enough.
constexpr std::pair<size_t, bool> kTries[] = {{1, false}, {4, false}, {16, true}};

// Positions [first, last].
struct Range {
  int64_t first = 0;
  int64_t last = 0;
};

// Joins ranges that touch or overlap.
std::vector<Range> joined(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  std::vector<Range> result;
  for (const Range& range : ranges) {
    if (!result.empty() && range.first <= result.back().last + 1) {
      result.back().last = std::max(result.back().last, range.last);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

// The positions of a progression in [first, last]; none when begin > end.
Progression within(const Progression& run, int64_t first, int64_t last) {
  Progression part = run;
  if (part.begin < first) part.begin += (first - part.begin + part.step - 1) / part.step * part.step;
  if (last < part.begin) return {part.begin, part.begin - 1, part.step};
  if (part.end > last) part.end = part.begin + (last - part.begin) / part.step * part.step;
  return part;
}

}  // namespace

CutSearch::CutSearch(const SegmentLoads& segments, const CutLoads& cuts, std::span<const Link> links, CutRules rules)
    : segments_(&segments), cuts_(&cuts), links_(links), rules_(std::move(rules)) {
  MILLRACE_CHECK(static_cast<int64_t>(links.size()) == devices() - 1, "a ring of D devices has D-1 links");
  for (int64_t d = 0; d + 1 < devices(); ++d)
    quanta_.push_back(std::max(segments.model(d).channel_quantum(), segments.model(d + 1).channel_quantum()));
  const Chain& chain = segments.chain();
  std::map<size_t, std::set<int64_t>> whole_of;  // by kind of device
  for (int64_t d = 0; d < devices(); ++d) {
    const auto [whole, is_new] = whole_of.try_emplace(segments.kind_of(d));
    for (int64_t g = 0; is_new && g < chain.groups(); ++g)
      if (!segments.model(d).divides(chain.head_of(g))) whole->second.insert(g);
  }
  const auto stay_whole = [&](int64_t link) {
    std::set<int64_t> whole = whole_of.at(segments.kind_of(link));
    whole.merge(std::set<int64_t>(whole_of.at(segments.kind_of(link + 1))));
    return whole;
  };
  using Kind = std::tuple<int64_t, int64_t, int64_t, int64_t, std::set<int64_t>>;
  std::map<Kind, size_t> known;
  for (size_t i = 0; i < links.size(); ++i) {
    const Kind kind{links[i].forward_bits_per_second, links[i].backward_bits_per_second, links[i].shared_bits_per_second, quanta_[i],
                    stay_whole(static_cast<int64_t>(i))};
    kinds_.push_back(known.emplace(kind, known.size()).first->second);
    if (kinds_.back() == whole_.size()) whole_.push_back(std::get<4>(kind));
  }
}

void CutSearch::append_allowed(int64_t link, double seconds, int64_t first, int64_t last, Memory& memory, PositionSet& set) const {
  const auto index = to_size(link);
  const Chain& chain = segments_->chain();
  if (!rules_.windows.empty()) {
    first = std::max(first, rules_.windows[index].begin);
    last = std::min(last, rules_.windows[index].end);
  }
  if (first > last) return;
  std::optional<PositionSet>& everywhere = memory.allowed[kinds_[index]];
  if (!everywhere) {
    everywhere = cuts_->allowed(links_[index], seconds, quanta_[index], 0, chain.end());
    const std::set<int64_t>& whole = whole_[kinds_[index]];
    std::erase_if(*everywhere, [&](const Progression& run) {
      if (run.begin == chain.end()) return false;
      const int64_t group = chain.group_at(run.begin);
      return run.begin != chain.begin_of(group) && (rules_.whole_layers || whole.contains(group));
    });
  }
  auto run = std::lower_bound(everywhere->begin(), everywhere->end(), first,
                              [](const Progression& candidate, int64_t position) { return candidate.end < position; });
  for (; run != everywhere->end() && run->begin <= last; ++run) {
    const Progression part = within(*run, first, last);
    if (part.begin <= part.end) set.push_back(part);
  }
}

PositionSet CutSearch::next(int64_t device, const PositionSet& from, const Periods& periods, const Storage& storage, int64_t nearest,
                            Memory& memory) const {
  const Chain& chain = segments_->chain();
  const double period = periods.compute;
  std::vector<Range> ranges;
  const int64_t boundary = segments_->off_chip_from(device);
  const auto take_from = [&](int64_t first, int64_t last) {  // ends of stretches that start anywhere in [first, last]
    const SegmentLoads::Ends furthest = segments_->ends(device, last, period, storage, &memory.found);
    if (furthest.on_chip > first) ranges.push_back({first + 1, furthest.on_chip});
    if (furthest.off_chip > last) ranges.push_back({std::max(first, boundary) + 1, furthest.off_chip});
  };
  // Devices of one kind ask the same short questions, so the answers are kept.
  const auto fits = [&](int64_t first, int64_t last) {
    const auto [answer, asked] = memory.fits.try_emplace({segments_->kind_of(device), first, last}, false);
    if (asked) answer->second = segments_->fits(device, first, last, period, storage, &memory.found);
    return answer->second;
  };
  // From the first start on, starts whose ends overlap: only the reach of the last of them needs to be known.
  std::optional<Range> starts;
  const auto close = [&] {
    if (starts) take_from(starts->first, starts->last);
    starts.reset();
  };
  for (const Progression& run : from) {
    const bool between_layers = run.begin == chain.end() || run.begin == chain.begin_of(chain.group_at(run.begin));
    if (rules_.allow_empty && between_layers) ranges.push_back({run.begin, run.begin});
    if (run.begin == chain.end()) continue;
    // Starts among the layers kept off chip have no ends before them.
    if (starts && (starts->last <= boundary) == (run.begin <= boundary) && fits(starts->last, run.begin)) {
      starts->last = run.begin;
    } else {
      close();
      starts = {run.begin, run.begin};
    }
    if (run.begin == run.end) continue;
    // All units of a layer demand the same, so one tells whether stretches from neighbouring starts overlap.
    if (fits(run.begin, run.begin + run.step)) {
      starts->last = run.end;
      continue;
    }
    close();
    if (!fits(run.begin, run.begin + 1)) {
      // Not a unit on chip; all of them off chip, perhaps.
      const int64_t furthest = segments_->ends(device, run.end, period, storage, &memory.found).off_chip;
      if (furthest > std::max(run.end, boundary)) ranges.push_back({std::max(run.end, boundary) + 1, furthest});
      continue;
    }
    for (int64_t start = run.begin; start <= run.end; start += run.step) take_from(start, start);
  }
  close();
  PositionSet ends;
  if (device == devices() - 1) {
    for (const Range& range : ranges)
      if (range.last == chain.end()) return {{chain.end(), chain.end(), 1}};
    return ends;
  }
  for (const Range& range : joined(std::move(ranges))) {
    if (range.last < nearest) continue;
    append_allowed(device, periods.link, std::max(range.first, nearest), range.last, memory, ends);
  }
  return ends;
}

// The ends of feasible prefixes, per device; shorter than the ring when a device cannot be reached.
std::vector<PositionSet> CutSearch::prefixes(const Periods& periods, const Storage& storage, Reached* reached) const {
  Memory memory = new_memory();
  std::vector<int64_t> nearest(to_size(devices()));
  int64_t begin = segments_->chain().end();
  for (size_t d = nearest.size(); d-- > 0;) {
    nearest[d] = begin;
    const auto device = static_cast<int64_t>(d);
    const int64_t boundary = segments_->off_chip_from(device);
    const int64_t end = begin;
    begin = segments_->reach_back(device, end, periods.compute, storage, &memory.found);
    // A stretch may begin earlier that ends later, with all its weights off chip.
    if (end <= boundary && boundary < segments_->chain().end())
      begin = std::min(begin, segments_->reach_back(device, boundary + 1, periods.compute, storage, &memory.found));
  }
  if (reached != nullptr) reached->begin = begin;
  if (begin > 0) return {};
  std::vector<PositionSet> sets;
  PositionSet from{{0, 0, 1}};
  for (int64_t d = 0; d < devices(); ++d) {
    from = next(d, from, periods, storage, fast_item(nearest, d), memory);
    if (from.empty()) break;
    sets.push_back(from);
  }
  return sets;
}

bool CutSearch::feasible(const Periods& periods, const Storage& storage) const {
  return static_cast<int64_t>(prefixes(periods, storage).size()) == devices();
}

CutSearch::Reached CutSearch::reached(const Periods& periods, const Storage& storage) const {
  Reached reached;
  reached.feasible = static_cast<int64_t>(prefixes(periods, storage, &reached).size()) == devices();
  return reached;
}

std::optional<std::vector<int64_t>> CutSearch::cuts_from_first(const Periods& periods, const Storage& storage, size_t kept,
                                                               bool whole_channels) const {
  constexpr int64_t kMostTried = 64;  // ends that a link allows, from the furthest back
  struct End {
    int64_t position = 0;
    std::vector<int64_t> cuts;
  };
  Memory memory = new_memory();
  const Chain& chain = segments_->chain();
  std::vector<End> from{{}};
  for (int64_t d = 0; d + 1 < devices(); ++d) {
    std::vector<End> ends;
    for (const End& start : from) {
      int64_t tried = 0;
      size_t found = 0;
      const PositionSet allowed = next(d, {{start.position, start.position, 1}}, periods, storage, 0, memory);
      // Engines hold whole channels, so they are the same for all ends within one: of those the furthest alone leads to others.
      int64_t furthest = chain.end();
      for (const Progression& run : std::views::reverse(allowed))
        for (; found < kept && tried < kMostTried && furthest >= run.begin; ++tried) {
          const int64_t at = within(run, run.begin, furthest).end;
          furthest = whole_channels ? chain.channel_end_before(at) : at - 1;
          if (std::ranges::find(ends, at, &End::position) != ends.end() ||
              !segments_->fits(d, start.position, at, periods.compute, storage, &memory.found))
            continue;
          ++found;
          End& end = ends.emplace_back(start);
          end.cuts.push_back(end.position = at);
        }
    }
    std::ranges::stable_sort(ends, std::ranges::greater(), &End::position);
    if (ends.size() > kept) ends.resize(kept);
    from = std::move(ends);
  }
  for (End& end : from)
    if (end.position == chain.end() ? rules_.allow_empty
                                    : segments_->fits(devices() - 1, end.position, chain.end(), periods.compute, storage, &memory.found))
      return std::move(end.cuts);
  return std::nullopt;
}

std::optional<std::vector<int64_t>> CutSearch::cuts_at(const Periods& periods, const Storage& storage) const {
  if (segments_->counts_built())
    for (const auto& [kept, whole_channels] : kTries)
      if (std::optional<std::vector<int64_t>> cuts = cuts_from_first(periods, storage, kept, whole_channels)) return cuts;
  const std::vector<PositionSet> sets = prefixes(periods, storage);
  if (static_cast<int64_t>(sets.size()) != devices()) return std::nullopt;
  const Chain& chain = segments_->chain();
  SegmentLoads::Found found(*segments_);
  std::vector<int64_t> cuts(to_size(devices() - 1));
  int64_t end = chain.end();
  for (int64_t d = devices() - 1; d > 0; --d) {
    const bool between_layers = end == chain.end() || end == chain.begin_of(chain.group_at(end));
    const int64_t last = rules_.allow_empty && between_layers ? end : end - 1;
    const int64_t first = segments_->reach_back(d, end, periods.compute, storage, &found);
    int64_t best = -1;
    int64_t least_bits = 0;
    const auto consider = [&](int64_t position) {
      const int64_t bits = cuts_->at(position).sum();
      if (best >= 0 && bits > least_bits) return;
      best = position;
      least_bits = bits;
    };
    const auto consider_from = [&](int64_t nearest) {
      for (const Progression& run : fast_item(sets, d - 1)) {
        const Progression part = within(run, nearest, last);
        if (part.begin > part.end) continue;
        consider(part.begin);
        consider(part.end);
      }
    };
    consider_from(first);
    // What fits within a longer stretch may be undecided alone.
    if (best < 0 && segments_->any_undecided()) {
      Storage relaxed = storage;
      relaxed.undecided_fits = true;
      consider_from(segments_->reach_back(d, end, periods.compute, relaxed));
    }
    if (best < 0) {
      MILLRACE_CHECK(segments_->any_undecided(), "a feasible prefix has no feasible start");
      return std::nullopt;
    }
    fast_item(cuts, d - 1) = best;
    end = best;
  }
  return cuts;
}

std::vector<int64_t> CutSearch::furthest(const Periods& periods, const Storage& storage) const {
  std::vector<int64_t> ends;
  Memory memory = new_memory();
  PositionSet from{{0, 0, 1}};
  for (int64_t d = 0; d < devices(); ++d) {
    from = next(d, from, periods, storage, 0, memory);
    if (from.empty()) break;
    ends.push_back(from.back().end);
  }
  ends.resize(to_size(devices()), -1);
  return ends;
}

}  // namespace millrace
