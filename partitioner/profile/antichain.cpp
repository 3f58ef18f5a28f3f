#include "partitioner/profile/antichain.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/index.h"

namespace millrace {
namespace {

using Words = std::vector<uint64_t>;

bool holds(const uint64_t* set, size_t node) { return (set[node / 64] >> (node % 64) & 1) != 0; }
void put(uint64_t* set, size_t node) { set[node / 64] |= uint64_t{1} << (node % 64); }

struct Neighbours {
  std::vector<std::vector<size_t>> makers, takers;

  explicit Neighbours(const Profile& profile) : makers(profile.nodes.size()), takers(profile.nodes.size()) {
    for (const ProfileEdge& edge : profile.edges) {
      item(makers, edge.to).push_back(to_size(edge.from));
      item(takers, edge.from).push_back(to_size(edge.to));
    }
  }
};

// Sets of nodes, one behind the other; the index finds equal ones by content.
class Sets {
 public:
  explicit Sets(size_t words) : words_(words), index_(16, Hash{this}, Equal{this}) {}
  Sets(const Sets&) = delete;
  Sets& operator=(const Sets&) = delete;

  const uint64_t* operator[](size_t set) const { return &bits_[set * words_]; }
  size_t size() const { return bits_.size() / words_; }
  // False when the set was there already.
  bool add(const Words& set) {
    bits_.insert(bits_.end(), set.begin(), set.end());
    if (index_.insert(size() - 1).second) return true;
    bits_.resize(bits_.size() - words_);
    return false;
  }

 private:
  struct Hash {
    const Sets* sets;
    size_t operator()(size_t set) const {
      return std::hash<std::string_view>()({reinterpret_cast<const char*>((*sets)[set]), sets->words_ * sizeof(uint64_t)});
    }
  };
  struct Equal {
    const Sets* sets;
    bool operator()(size_t a, size_t b) const { return std::equal((*sets)[a], (*sets)[a] + sets->words_, (*sets)[b]); }
  };

  size_t words_;
  Words bits_;
  std::unordered_set<size_t, Hash, Equal> index_;
};

// From each set, those with one node more; false when there are more than `most`.
bool enumerate(const Neighbours& graph, size_t most, Sets& sets) {
  const size_t nodes = graph.makers.size();
  const size_t words = (nodes + 63) / 64;
  sets.add(Words(words, 0));
  for (size_t set = 0; set < sets.size(); ++set) {
    const Words here(sets[set], sets[set] + words);
    for (size_t node = 0; node < nodes; ++node) {
      if (holds(here.data(), node)) continue;
      const auto& makers = graph.makers[node];
      if (!std::all_of(makers.begin(), makers.end(), [&](size_t maker) { return holds(here.data(), maker); })) continue;
      Words more = here;
      put(more.data(), node);
      if (sets.add(more) && sets.size() > most) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<CutSpace> antichain_cuts(const Profile& profile, int64_t most) {
  const Neighbours graph(profile);
  const size_t nodes = profile.nodes.size();
  const size_t words = (nodes + 63) / 64;
  Sets sets(words);
  if (most < profile.size() + 1 || !enumerate(graph, to_size(most), sets)) return std::nullopt;

  CutSpace found;
  found.kind = profile.is_chain() ? CutKind::kChain : CutKind::kAntichains;
  found.words = words;
  for (size_t set = 0; set < sets.size(); ++set) {
    const uint64_t* members = sets[set];
    // In one order and in long double: a set that holds another never comes out as less.
    long double seconds = 0;
    double parameter_bytes = 0;
    double activation_bytes = 0;
    double crossing = 0;
    int64_t count = 0;
    for (size_t n = 0; n < nodes; ++n) {
      if (!holds(members, n)) continue;
      const ProfileNode& node = profile.nodes[n];
      seconds += node.seconds();
      parameter_bytes += node.parameter_bytes;
      activation_bytes += node.activation_bytes;
      ++count;
      const auto& takers = graph.takers[n];
      if (std::any_of(takers.begin(), takers.end(), [&](size_t taker) { return !holds(members, taker); })) crossing += node.out_bytes;
    }
    found.seconds.push_back(static_cast<double>(seconds));
    found.parameter_bytes.push_back(parameter_bytes);
    found.activation_bytes.push_back(activation_bytes);
    found.crossing_bytes.push_back(crossing);
    found.nodes.push_back(count);
  }

  for (size_t set = 0; set < sets.size(); ++set) found.members.insert(found.members.end(), sets[set], sets[set] + words);
  return found.in_order_of(found.seconds);
}

}  // namespace millrace
