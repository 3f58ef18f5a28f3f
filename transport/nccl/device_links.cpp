#include "transport/nccl/device_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/base/check.h"
#include "core/base/error.h"

namespace millrace {

namespace {

using namespace std::chrono_literals;

std::string hexadecimal(const LineId& id) {
  std::string text;
  for (const std::byte byte : id) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}
LineId id_from(const std::string& text) {
  LineId id{};
  if (text.size() != 2 * id.size()) fail(ErrorCode::kMalformed, "an id of a line has {} digits, expected {}", text.size(), 2 * id.size());
  for (size_t i = 0; i < id.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) fail(ErrorCode::kMalformed, "an id of a line: {}", text);
    id[i] = static_cast<std::byte>(byte);
  }
  return id;
}

// What every rank says, one behind the other, on every rank.
std::string all_of(Agreement& agreement, std::string_view what, const std::string& mine) {
  std::string all;
  for (const std::string& one : agreement.gather(what, mine)) all += one;
  return agreement.broadcast(what, all);
}

int direction_number(Direction direction) { return direction == Direction::kForward ? 0 : 1; }

}  // namespace

std::unique_ptr<Wire> DeviceLinks::over(std::unique_ptr<Wire> host) {
  if (settings_.driver == nullptr || settings_.use == LinkUse::kMpi || host->ranks() == 1) return host;
  auto wire = std::make_unique<AnnouncedWire>(std::move(host));
  wire_ = wire.get();
  return wire;
}

std::vector<LinkCapability> DeviceLinks::exchange_capabilities(Transport& transport, Agreement& agreement, int64_t devices,
                                                               std::span<const LinkDevice> mine) const {
  std::string capabilities;
  for (const LinkDevice& device : mine) {
    LinkCapability capability{.device = device.index, .rank = transport.rank(), .id = {}, .version = {}, .reason = {}};
    if (!device.location || device.location->id.empty()) {
      capability.reason = device.reason;
    } else if (settings_.driver == nullptr) {
      capability.reason = settings_.no_driver;
    } else {
      try {
        capability.version = settings_.driver->version();
        capability.id = device.location->id;
      } catch (const LineFailure& failure) {
        capability.reason = fmt::format("has an NCCL that does not work: {}", failure.what());
      }
    }
    capabilities += text_of(capability);
  }
  std::vector<LinkCapability> all = parse_capabilities(all_of(agreement, "devices of the links", capabilities));
  std::ranges::sort(all, {}, &LinkCapability::device);  // they come by rank
  if (static_cast<int64_t>(all.size()) != devices)
    fail(ErrorCode::kMismatch, "{} devices told what they are, and the ring has {}; run the same plan on all ranks", all.size(), devices);
  return all;
}

std::vector<DeviceLinks::Line> DeviceLinks::lines_here(Transport& transport, std::span<const LinkCapability> capabilities,
                                                       std::span<const LinkDevice> mine) const {
  std::vector<Line> lines;
  for (size_t l = 0; l < links_.size(); ++l) {
    if (links_[l].wire != LinkWire::kNccl) continue;
    const bool lower = capabilities[l].rank == transport.rank();
    if (!lower && capabilities[l + 1].rank != transport.rank()) continue;
    const int64_t here = lower ? capabilities[l].device : capabilities[l + 1].device;
    const auto device = std::ranges::find(mine, here, &LinkDevice::index);
    MILLRACE_CHECK(device != mine.end() && device->location, "device {} has no location here", here);
    for (const Direction direction : {Direction::kForward, Direction::kBackward})
      lines.push_back({.link = l,
                       .name = {.peer = lower ? capabilities[l + 1].rank : capabilities[l].rank,
                                .outgoing = lower == (direction == Direction::kForward),
                                .direction = direction},
                       .location = *device->location,
                       .id = {},
                       .problem = {}});
  }
  return lines;
}

void DeviceLinks::exchange_ids(Agreement& agreement, std::vector<Line>& lines) const {
  std::string mine;
  for (Line& line : lines) {
    if (!line.name.outgoing) continue;
    try {
      mine += fmt::format("{} {} {}\n", line.link, direction_number(line.name.direction), hexadecimal(settings_.driver->make_id()));
    } catch (const LineFailure& failure) {
      line.problem = fmt::format("{}: {}", text_of(line.name), failure.what());
    }
  }
  std::istringstream ids(all_of(agreement, "ids of the lines", mine));
  std::vector<bool> found(lines.size(), false);
  std::string id;
  int direction = 0;
  for (size_t link = 0; ids >> link >> direction >> id;)
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].link != link || direction_number(lines[i].name.direction) != direction) continue;
      lines[i].id = id_from(id);
      found[i] = true;
    }
  for (size_t i = 0; i < lines.size(); ++i)
    if (!found[i] && lines[i].problem.empty()) lines[i].problem = fmt::format("{}: the other end has made no id", text_of(lines[i].name));
}

// One line that fails keeps no other from coming about.
void DeviceLinks::join(Transport& transport, NcclLines& made, std::vector<Line>& lines) const {
  const Nanoseconds patience = transport.settings().deadline / 2;
  const auto tried = [](Line& line, const auto& step) {
    try {
      step();
    } catch (const Error& error) {
      line.problem = error.what();
    }
  };
  for (Line& line : lines)
    if (line.problem.empty()) tried(line, [&] { made.begin(line.name, line.location, line.id); });
  const auto open = [](const Line& line) { return !line.joined && line.problem.empty(); };
  const Instant begun = machine_clock().now();
  while (std::ranges::any_of(lines, open)) {
    for (Line& line : lines)
      if (open(line)) tried(line, [&] { line.joined = made.joined(line.name); });
    transport.progress();
    machine_clock().nap(100us);
    if (machine_clock().now() - begun < patience) continue;
    for (Line& line : lines)
      if (open(line))
        line.problem = fmt::format("{}: NCCL has not joined the two after {:.1f} s; see that rank {} can be reached (NCCL_SOCKET_IFNAME)",
                                   text_of(line.name), std::chrono::duration<double>(patience).count(), line.name.peer);
  }
}

void DeviceLinks::settle_problems(Agreement& agreement, NcclLines& made, const std::vector<Line>& lines) {
  std::string mine;
  for (const Line& line : lines)
    if (!line.problem.empty()) {
      std::string problem = line.problem;
      std::ranges::replace(problem, '\n', ' ');
      mine += fmt::format("{} {}\n", line.link, problem);
    }
  std::istringstream problems(all_of(agreement, "lines that did not join", mine));
  std::string text;
  for (size_t link = 0; problems >> link && std::getline(problems >> std::ws, text);)
    if (links_.at(link).wire == LinkWire::kNccl) links_[link] = {LinkWire::kMpi, text};
  for (const Line& line : lines)
    if (links_[line.link].wire != LinkWire::kNccl) made.drop(line.name);
}

const std::vector<LinkChoice>& DeviceLinks::choose(Transport& transport, Agreement& agreement, int64_t devices,
                                                   std::span<const LinkDevice> mine) {
  const std::vector<LinkCapability> capabilities = exchange_capabilities(transport, agreement, devices, mine);
  any_location_ = std::ranges::any_of(capabilities, [](const LinkCapability& capability) { return !capability.id.empty(); });
  links_ = choose_links(capabilities, settings_.use);
  const auto takes_nccl = [](const LinkChoice& link) { return link.wire == LinkWire::kNccl; };
  // Where all must, none is begun when one cannot.
  if (std::ranges::none_of(links_, takes_nccl) || !refusal_of(links_, settings_.use).empty()) return links_;
  std::vector<Line> lines = lines_here(transport, capabilities, mine);
  exchange_ids(agreement, lines);
  // A rank without lines of its own has no driver, perhaps.
  NcclLines made(settings_.driver);
  join(transport, made, lines);
  settle_problems(agreement, made, lines);
  if (wire_ != nullptr) wire_->attach(made.take());
  return links_;
}

}  // namespace millrace
