#include "transport/nccl/link_choice.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "core/base/check.h"
#include "core/base/error.h"

namespace millrace {

namespace {

constexpr char kBetween = '\t';
constexpr size_t kFields = 5;

int64_t number_in(std::string_view text, std::string_view line) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorCode::kMalformed, "what a device told the others of itself has no number at \"{}\": {}", text, line);
  return number;
}

LinkCapability parse_capability(std::string_view line) {
  std::array<std::string_view, kFields> fields;
  std::string_view rest = line;
  for (size_t f = 0; f < kFields; ++f) {
    const size_t end = f + 1 == kFields ? rest.size() : rest.find(kBetween);
    if (end == std::string_view::npos)
      fail(ErrorCode::kMalformed, "what a device told the others of itself has {} of {} parts: {}", f + 1, kFields, line);
    fields[f] = rest.substr(0, end);
    if (f + 1 < kFields) rest.remove_prefix(end + 1);
  }
  return {.device = number_in(fields[0], line),
          .rank = number_in(fields[1], line),
          .id = std::string(fields[2]),
          .version = std::string(fields[3]),
          .reason = std::string(fields[4])};
}

LinkChoice choose(const LinkCapability& from, const LinkCapability& to, LinkUse use) {
  if (from.rank == to.rank) return {LinkWire::kMemory, fmt::format("within rank {}", from.rank)};
  if (use == LinkUse::kMpi) return {LinkWire::kMpi, "as asked for"};
  for (const LinkCapability* capability : {&from, &to})
    if (capability->id.empty()) return {LinkWire::kMpi, fmt::format("device {} {}", capability->device, capability->reason)};
  if (from.id == to.id) return {LinkWire::kMpi, fmt::format("devices {} and {} share {}", from.device, to.device, from.id)};
  if (from.version != to.version)
    return {LinkWire::kMpi, fmt::format("device {} has NCCL {}, device {} has {}", from.device, from.version, to.device, to.version)};
  return {LinkWire::kNccl, from.version};
}

std::string text_of(const LinkChoice& choice) {
  switch (choice.wire) {
    case LinkWire::kMemory: return fmt::format("in memory ({})", choice.detail);
    case LinkWire::kNccl: return fmt::format("by NCCL {}", choice.detail);
    case LinkWire::kMpi: break;
  }
  return fmt::format("by MPI ({})", choice.detail);
}

}  // namespace

std::string text_of(const LinkCapability& capability) {
  const auto one_line = [](std::string text) {
    for (char& c : text)
      if (c == kBetween || c == '\n') c = ' ';
    return text;
  };
  return fmt::format("{}{}{}{}{}{}{}{}{}\n", capability.device, kBetween, capability.rank, kBetween, one_line(capability.id), kBetween,
                     one_line(capability.version), kBetween, one_line(capability.reason));
}

std::vector<LinkCapability> parse_capabilities(std::string_view lines) {
  std::vector<LinkCapability> capabilities;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    if (end == std::string_view::npos) fail(ErrorCode::kMalformed, "what a device told the others of itself does not end: {}", lines);
    capabilities.push_back(parse_capability(lines.substr(0, end)));
    lines.remove_prefix(end + 1);
  }
  return capabilities;
}

std::vector<LinkChoice> choose_links(std::span<const LinkCapability> capabilities, LinkUse use) {
  std::vector<LinkChoice> links;
  for (size_t l = 0; l + 1 < capabilities.size(); ++l) {
    MILLRACE_CHECK(capabilities[l].device == static_cast<int64_t>(l), "device {} at place {}", capabilities[l].device, l);
    links.push_back(choose(capabilities[l], capabilities[l + 1], use));
  }
  return links;
}

std::string text_of(std::span<const LinkChoice> links) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < links.size(); begin = end) {
    for (end = begin + 1; end < links.size() && links[end] == links[begin];) ++end;
    text += begin == 0 ? "links: " : "; ";
    text += end == begin + 1 ? fmt::format("{} {}", begin, text_of(links[begin]))
                             : fmt::format("{} to {} {}", begin, end - 1, text_of(links[begin]));
  }
  return text;
}

std::string refusal_of(std::span<const LinkChoice> links, LinkUse use) {
  if (use != LinkUse::kNccl) return "";
  std::string text;
  for (size_t l = 0; l < links.size(); ++l)
    if (links[l].wire == LinkWire::kMpi)
      text += fmt::format("{}link {} cannot take NCCL: {}", text.empty() ? "" : "; ", l, links[l].detail);
  if (text.empty()) return "";
  return fmt::format("--links nccl: {}; take --links auto, which takes MPI there", text);
}

}  // namespace millrace
