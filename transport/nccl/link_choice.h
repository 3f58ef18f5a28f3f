// Which wire each link of a ring takes: NCCL between GPUs of different ranks that can talk to each other, MPI by way of host memory
// otherwise, and plain memory between two devices of one rank.
//
//   const std::vector<LinkCapability> capabilities = parse_capabilities(all);                  // of all devices, in order
//   const std::vector<LinkChoice> links = choose_links(capabilities, LinkUse::kAuto);
//   log::info("{}", text_of(links));                                       // links: 0 by NCCL 2.28.9; 1 by MPI (device 2 is no GPU here)
//   const std::string refusal = refusal_of(links, LinkUse::kNccl);         // "" when every link between ranks takes NCCL
//
// Pure: every rank comes to the same from the same capabilities. parse_capabilities fails with kMalformed on what text_of cannot have
// written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// What an operator asks for.
enum class LinkUse : uint8_t { kAuto, kMpi, kNccl };

// What a device tells the others of itself.
struct LinkCapability {
  int64_t device = 0;
  int64_t rank = 0;
  std::string id;       // of the GPU; empty: lines do not reach this device
  std::string version;  // of NCCL there
  std::string reason;   // why they do not: "is no GPU here"
  bool operator==(const LinkCapability&) const = default;
};
std::string text_of(const LinkCapability& capability);  // a line
std::vector<LinkCapability> parse_capabilities(std::string_view lines);

enum class LinkWire : uint8_t { kMemory, kMpi, kNccl };

struct LinkChoice {
  LinkWire wire = LinkWire::kMpi;
  std::string detail;  // NCCL's version, or why not NCCL
  bool operator==(const LinkChoice&) const = default;
};

// Link l joins devices l and l+1. Cards: one per device, in order.
std::vector<LinkChoice> choose_links(std::span<const LinkCapability> capabilities, LinkUse use);
// Links with the same wire for the same reason are said together.
std::string text_of(std::span<const LinkChoice> links);
// Which links between ranks cannot take NCCL, and why, where all of them must.
std::string refusal_of(std::span<const LinkChoice> links, LinkUse use);

}  // namespace millrace
