#include "partitioner/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "partitioner/profile/profile_text.h"

namespace millrace {
namespace {

constexpr std::string_view kHeader = "name,fwd_us,bwd_us,out_bytes,param_bytes,act_bytes";

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0;;) {
    const size_t comma = line.find(',', begin);
    fields.push_back(line.substr(begin, comma == std::string_view::npos ? comma : comma - begin));
    if (comma == std::string_view::npos) return fields;
    begin = comma + 1;
  }
}

std::string_view first_line_of(std::string_view text) {
  LineReader lines(text.substr(0, kMostProfileBytes), "");
  return lines.next() ? lines.line() : std::string_view();
}

void check_amount(const Profile& profile, const ProfileNode& node, std::string_view what, double value, double most) {
  if (!(value >= 0) || value > most)
    fail(ErrorCode::kMalformed, "{}: node \"{}\": {} is {}, expected 0 to {:g}", profile.origin, node.name, what, value, most);
}

}  // namespace

bool Profile::is_chain() const {
  if (edges.size() + 1 != nodes.size()) return false;
  for (size_t i = 0; i < edges.size(); ++i)
    if (edges[i] != ProfileEdge{static_cast<int64_t>(i), static_cast<int64_t>(i) + 1}) return false;
  return true;
}

double Profile::total_seconds() const {
  long double total = 0;
  for (const ProfileNode& node : nodes) total += node.seconds();
  return static_cast<double>(total);
}

Profile parse_profile_csv(std::string_view text, std::string_view origin) {
  LineReader lines(text, origin);
  if (!lines.next()) fail(ErrorCode::kMalformed, "{}: this file is empty; a profile starts with the line {}", origin, kHeader);
  if (trimmed(lines.line()) != kHeader)
    fail(ErrorCode::kMalformed, "{}: this is not a profile: the line is {}, it must be {}", lines.where(), in_quotes(lines.line()),
         kHeader);
  Profile profile;
  profile.origin = origin;
  std::set<std::string, std::less<>> names;
  const auto cut_short = [&] {
    fail(ErrorCode::kMalformed, "{}: the last line does not end in a line break, so the file may be cut short; add one if it is whole",
         lines.where());
  };
  while (lines.next()) {
    const std::vector<std::string_view> fields = fields_of(lines.line());
    if (fields.size() != 6) {
      if (!lines.complete() && fields.size() < 6)
        fail(ErrorCode::kMalformed, "{}: {} of 6 fields, and no line break behind them; the file is cut short", lines.where(),
             fields.size());
      fail(ErrorCode::kMalformed, "{}: {} fields, expected 6: {}{}", lines.where(), fields.size(), kHeader,
           fields.size() > 6 ? " (a name holds no comma)" : "");
    }
    if (!lines.complete()) cut_short();
    if (profile.nodes.size() == kMostProfileNodes)
      fail(ErrorCode::kMalformed, "{}: more than {} nodes; merge some of them", lines.where(), kMostProfileNodes);
    ProfileNode node;
    node.name = lines.name(fields[0]);
    if (!names.insert(node.name).second) fail(ErrorCode::kMalformed, "{}: the name {} is given twice", lines.where(), in_quotes(node.name));
    node.forward_seconds = lines.number(fields[1], "fwd_us", kMostNodeSeconds * 1e6) / 1e6;
    node.backward_seconds = lines.number(fields[2], "bwd_us", kMostNodeSeconds * 1e6) / 1e6;
    node.out_bytes = lines.whole_number(fields[3], "out_bytes", kMostNodeBytes);
    node.parameter_bytes = lines.whole_number(fields[4], "param_bytes", kMostNodeBytes);
    node.activation_bytes = lines.whole_number(fields[5], "act_bytes", kMostNodeBytes);
    profile.nodes.push_back(std::move(node));
  }
  if (profile.nodes.empty()) fail(ErrorCode::kMalformed, "{}: no line follows the header, so there is nothing to plan", origin);
  for (int64_t i = 0; i + 1 < profile.size(); ++i) profile.edges.push_back({i, i + 1});
  return profile;
}

Profile load_profile(const std::filesystem::path& path) {
  if (std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) > kMostProfileBytes)
    fail(ErrorCode::kMalformed, "{}: {} bytes, a profile has at most {}", path.string(), std::filesystem::file_size(path),
         kMostProfileBytes);
  if (std::filesystem::is_character_file(path) || std::filesystem::is_block_file(path))
    fail(ErrorCode::kMalformed, "{}: a device, not a file", path.string());
  const std::string text = read_text(path);
  const std::string_view first = first_line_of(text);
  if (first.find(" -- ") != std::string_view::npos) return parse_pipedream_graph(text, path.string());
  if (first.starts_with("name") || path.extension() == ".csv") return parse_profile_csv(text, path.string());
  if (first.empty()) fail(ErrorCode::kMalformed, "{}: this file is empty; give a PipeDream graph.txt or a CSV", path.string());
  fail(ErrorCode::kMalformed, "{}:1: {} starts neither a PipeDream graph (node1 -- ...) nor a CSV ({})", path.string(), in_quotes(first),
       kHeader);
}

std::string csv_of(const Profile& chain) {
  if (!chain.is_chain()) fail(ErrorCode::kUsage, "{}: this profile branches; linearise it before it is written as CSV", chain.origin);
  std::string text = std::string(kHeader) + "\n";
  for (const ProfileNode& node : chain.nodes) {
    if (node.name.empty() || trimmed(node.name) != node.name || node.name.find_first_of(",\r\n") != std::string::npos)
      fail(ErrorCode::kUsage, "{}: {} is no name for a CSV, where a comma or a line break ends it; rename that node", chain.origin,
           in_quotes(node.name));
    text += fmt::format("{},{:.12g},{:.12g},{:.0f},{:.0f},{:.0f}\n", node.name, 1e6 * node.forward_seconds, 1e6 * node.backward_seconds,
                        node.out_bytes, node.parameter_bytes, node.activation_bytes);
  }
  return text;
}

void validate(const Profile& profile) {
  if (profile.nodes.empty() || profile.nodes.size() > kMostProfileNodes)
    fail(ErrorCode::kMalformed, "{}: {} nodes, expected 1 to {}", profile.origin, profile.nodes.size(), kMostProfileNodes);
  for (const ProfileNode& node : profile.nodes) {
    check_amount(profile, node, "forward_seconds", node.forward_seconds, kMostNodeSeconds);
    check_amount(profile, node, "backward_seconds", node.backward_seconds, kMostNodeSeconds);
    check_amount(profile, node, "out_bytes", node.out_bytes, kMostNodeBytes);
    check_amount(profile, node, "parameter_bytes", node.parameter_bytes, kMostNodeBytes);
    check_amount(profile, node, "activation_bytes", node.activation_bytes, kMostNodeBytes);
  }
  if (profile.edges.size() > kMostProfileEdges)
    fail(ErrorCode::kMalformed, "{}: {} edges, at most {}", profile.origin, profile.edges.size(), kMostProfileEdges);
  ProfileEdge before{-1, -1};
  for (const ProfileEdge& edge : profile.edges) {
    if (edge.from < 0 || edge.from >= edge.to || edge.to >= profile.size())
      fail(ErrorCode::kMalformed, "{}: the edge {} -> {} does not lead to a later node", profile.origin, edge.from, edge.to);
    if (std::pair(edge.from, edge.to) <= std::pair(before.from, before.to))
      fail(ErrorCode::kMalformed, "{}: the edge {} -> {} stands out of order or twice", profile.origin, edge.from, edge.to);
    before = edge;
  }
}

}  // namespace millrace
