#include "node/ring/replica_column.h"

#include <array>
#include <cstring>

#include "core/base/error.h"

namespace millrace {
namespace {

constexpr uint32_t kDecisions = 1;

struct DecisionNote {
  int64_t mini_batch = 0;
  uint8_t last = 0, evaluate = 0, checkpoint = 0, zero = 0;
};

}  // namespace

ReplicaColumn::ReplicaColumn(Transport& transport) : transport_(transport) {
  transport_.open(ColumnSum::flows(transport.ranks()));
  sum_ = std::make_unique<ColumnSum>(transport_);
}

bool ReplicaColumn::advance() {
  if (sum_->advance()) {
    idle_ = false;
    return true;
  }
  // The ring's own waits are short while a sum is under way, so the deadline of this one is kept here.
  const Instant now = machine_clock().now();
  if (!idle_ || sum_->moved()) idle_since_ = now;
  idle_ = true;
  if (now - idle_since_ > transport_.settings().deadline / 2) {
    std::vector<Interest> missing;
    sum_->look(missing);
    transport_.wait(missing);
  }
  return false;
}

void ReplicaColumn::announce(int64_t mini_batch, const Decision& decision) {
  DecisionNote note{.mini_batch = mini_batch};
  note.last = decision.last ? 1 : 0;
  note.evaluate = decision.evaluate ? 1 : 0;
  note.checkpoint = decision.checkpoint ? 1 : 0;
  if (transport_.ranks() > 1) transport_.send_control(kEveryRank, kDecisions, std::as_bytes(std::span(&note, 1)));
}

std::optional<Decision> ReplicaColumn::heard(int64_t mini_batch) {
  transport_.progress();
  while (auto message = transport_.take_control(kDecisions)) {
    DecisionNote note;
    std::memcpy(&note, message->payload.data(), sizeof(note));
    decisions_[note.mini_batch] = {.last = note.last != 0, .evaluate = note.evaluate != 0, .checkpoint = note.checkpoint != 0};
  }
  const auto found = decisions_.find(mini_batch);
  if (found == decisions_.end()) return std::nullopt;
  const Decision decision = found->second;
  decisions_.erase(found);
  return decision;
}

std::optional<Decision> Follower::decide(int64_t mini_batch) {
  std::optional<Decision> decision = column_.heard(mini_batch);
  // What the first ring saves and evaluates is what all would: their weights are the same.
  if (decision) decision->checkpoint = false;
  return decision;
}

}  // namespace millrace
