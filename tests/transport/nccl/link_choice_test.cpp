#include "transport/nccl/link_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

using testing::ElementsAre;

LinkCapability gpu(int64_t device, int64_t rank, std::string id = "", std::string version = "2.28.9") {
  return {
      .device = device, .rank = rank, .id = id.empty() ? "GPU-" + std::to_string(device) : id, .version = std::move(version), .reason = {}};
}
LinkCapability processor(int64_t device, int64_t rank) {
  return {.device = device, .rank = rank, .id = {}, .version = {}, .reason = "is no GPU here"};
}

TEST(LinkChoice, CardsComeBackAsTheyWere) {
  const std::vector<LinkCapability> capabilities = {gpu(0, 0), processor(1, 0), gpu(2, 1, "GPU-8f6a", "2.21.5")};
  std::string lines;
  for (const LinkCapability& capability : capabilities) lines += text_of(capability);
  EXPECT_EQ(parse_capabilities(lines), capabilities);
  EXPECT_TRUE(parse_capabilities("").empty());
}

TEST(LinkChoice, AReasonWithBreaksStaysOneLine) {
  LinkCapability capability = processor(0, 0);
  capability.reason = "has no NCCL\n\t(gone)";
  EXPECT_EQ(parse_capabilities(text_of(capability)).at(0).reason, "has no NCCL  (gone)");
}

TEST(LinkChoice, RefusesCardsThatNobodyWrote) {
  expect_error(ErrorCode::kMalformed, "does not end", [] { parse_capabilities("0\t0\tGPU-0\t2.28.9\t"); });
  expect_error(ErrorCode::kMalformed, "has 3 of 5 parts", [] { parse_capabilities("0\t0\tGPU-0\n"); });
  expect_error(ErrorCode::kMalformed, "no number at \"x\"", [] { parse_capabilities("0\tx\tGPU-0\t2.28.9\t\n"); });
}

TEST(LinkChoice, TakesNcclBetweenGpusOfDifferentRanksAlone) {
  const std::vector<LinkCapability> capabilities = {gpu(0, 0), gpu(1, 0), gpu(2, 1), processor(3, 2), gpu(4, 3)};
  const std::vector<LinkChoice> links = choose_links(capabilities, LinkUse::kAuto);
  EXPECT_THAT(links,
              ElementsAre(LinkChoice{LinkWire::kMemory, "within rank 0"}, LinkChoice{LinkWire::kNccl, "2.28.9"},
                          LinkChoice{LinkWire::kMpi, "device 3 is no GPU here"}, LinkChoice{LinkWire::kMpi, "device 3 is no GPU here"}));
  EXPECT_EQ(text_of(links), "links: 0 in memory (within rank 0); 1 by NCCL 2.28.9; 2 to 3 by MPI (device 3 is no GPU here)");
}

TEST(LinkChoice, SaysWhyNotNccl) {
  const auto reason = [](const LinkCapability& from, const LinkCapability& to, LinkUse use = LinkUse::kAuto) {
    const std::vector<LinkChoice> links = choose_links(std::vector{from, to}, use);
    return links.at(0).wire == LinkWire::kMpi ? links[0].detail : "none";
  };
  EXPECT_EQ(reason(gpu(0, 0), gpu(1, 1)), "none");
  EXPECT_EQ(reason(gpu(0, 0, "GPU-a"), gpu(1, 1, "GPU-a")), "devices 0 and 1 share GPU-a");
  EXPECT_EQ(reason(gpu(0, 0), gpu(1, 1, "", "2.21.5")), "device 0 has NCCL 2.28.9, device 1 has 2.21.5");
  EXPECT_EQ(reason(gpu(0, 0), gpu(1, 1), LinkUse::kMpi), "as asked for");
}

TEST(LinkChoice, ADemandIsRefusedForEveryLinkThatCannot) {
  const std::vector<LinkCapability> capabilities = {gpu(0, 0), processor(1, 1), gpu(2, 2), gpu(3, 2)};
  const std::vector<LinkChoice> links = choose_links(capabilities, LinkUse::kNccl);
  EXPECT_EQ(refusal_of(links, LinkUse::kNccl),
            "--links nccl: link 0 cannot take NCCL: device 1 is no GPU here; link 1 cannot take NCCL: device 1 is no GPU here; take "
            "--links auto, "
            "which takes MPI there");
  EXPECT_EQ(refusal_of(links, LinkUse::kAuto), "");
  EXPECT_EQ(refusal_of(choose_links(std::vector{gpu(0, 0), gpu(1, 0), gpu(2, 1)}, LinkUse::kNccl), LinkUse::kNccl), "");
}

}  // namespace
}  // namespace millrace
