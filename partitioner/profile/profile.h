// What somebody measured of a network, node by node: seconds forward and backward, bytes handed on, bytes held. From
// these times alone, without a model of any device, stage_partition.h cuts a pipeline.
//
//   const Profile profile = load_profile("vgg16/graph.txt");       // or chain.csv: told apart by what is in it
//   for (const ProfileNode& node : profile.nodes) fmt::print("{} {} s\n", node.name, node.seconds());
//
// Two formats:
//   CSV        name,fwd_us,bwd_us,out_bytes,param_bytes,act_bytes: a chain in the order of its lines. out_bytes is everything
//              that crosses the cut behind the line, also what an earlier line made for a later one. Ends in a line break.
//   PipeDream  graph.txt of PipeDream's profiler: a line per node, `node4 -- ReLU(inplace) -- forward_compute_time=1.5,
//              backward_compute_time=2.5, activation_size=4096.0, parameter_size=0.000` (milliseconds, bytes; a size may be
//              a list, [4096.0; 128.0], and counts as its sum), then a line per edge, a tab and `node4 -- node5`. What
//              PipeDream's optimizer leaves out is left out here: sources called Input..., whose time is reading data, and
//              results nobody takes, sinks called __getitem__. A fourth part `-- stage_id=2` is read and not used.
//
// A file is refused with kMalformed naming file, line, field and value: numbers that are negative, not finite or larger than
// the limits below, names given twice, edges given twice or of unknown nodes, parts without a connection, and cycles, node by
// node. A CSV cut short is noticed by its last line; a graph mostly by what it no longer connects.
// Limits: kMostProfileNodes nodes, kMostProfileEdges edges, kMostProfileBytes per file. Plain values, copied freely.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

inline constexpr size_t kMostProfileNodes = 10'000;
inline constexpr size_t kMostProfileEdges = 100'000;
inline constexpr size_t kMostProfileBytes = size_t{64} << 20;
inline constexpr double kMostNodeSeconds = 1e9;
inline constexpr double kMostNodeBytes = 1e15;

struct ProfileNode {
  std::string name;
  std::string description;  // "Conv2d(3, 64, ...)"; a CSV has none
  double forward_seconds = 0;
  double backward_seconds = 0;
  double out_bytes = 0;  // of the tensor that its consumers take; in a CSV, of all that crosses the cut behind it
  double parameter_bytes = 0;
  double activation_bytes = 0;  // held from its forward to its backward pass, for one micro-batch

  double seconds() const { return forward_seconds + backward_seconds; }
  bool operator==(const ProfileNode&) const = default;
};

struct ProfileEdge {
  int64_t from = 0;
  int64_t to = 0;
  bool operator==(const ProfileEdge&) const = default;
};

struct Profile {
  std::string origin;               // the file, for messages
  std::vector<ProfileNode> nodes;   // every edge leads to a later node
  std::vector<ProfileEdge> edges;   // ascending, each once
  std::vector<std::string> inputs;  // left out: they read data
  double input_seconds = 0;         // what reading took
  std::vector<std::string> unused;  // left out: nobody takes them
  bool operator==(const Profile&) const = default;

  int64_t size() const { return static_cast<int64_t>(nodes.size()); }
  // Every node but the last feeds exactly the next one.
  bool is_chain() const;
  double total_seconds() const;
};

Profile parse_profile_csv(std::string_view text, std::string_view origin);
Profile parse_pipedream_graph(std::string_view text, std::string_view origin);
// Either format. Fails with kNotFound | kIo | kMalformed.
Profile load_profile(const std::filesystem::path& path);

// The CSV of a chain. Fails with kUsage on a profile that is none (linearised() in linearise.h makes one), and on names with
// commas in them.
std::string csv_of(const Profile& chain);

// Fails with kMalformed when a profile that was put together by hand breaks what is promised above.
void validate(const Profile& profile);

}  // namespace millrace
