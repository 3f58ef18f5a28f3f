#include "node/ring/save_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/index.h"

namespace millrace {
namespace {

// Before the bytes of every piece.
struct PieceHead {
  int64_t mini_batch = 0;
  int64_t share = 0;
  int64_t total = 0;
};
constexpr size_t kMostPieceBytes = kSavePieceBytes - sizeof(PieceHead);

}  // namespace

SaveStream::SaveStream(Transport& transport, const RingFlows& flows, int64_t device) : transport_(&transport) {
  if (device > 0) out_ = flows.saves[to_size(device) - 1];
  if (device < static_cast<int64_t>(flows.saves.size())) in_ = item(flows.saves, device);
}

void SaveStream::push(SavedShare share) {
  if (out_ < 0)
    complete_.push_back(std::move(share));
  else
    own_.push_back(std::move(share));
}

bool SaveStream::step() {
  // What others sent goes first: they have waited longer.
  return out_ < 0 ? take_in() : pass_on() || send_own();
}

bool SaveStream::pass_on() {
  if (in_ < 0 || !transport_->has_message(in_) || !transport_->can_send(out_)) return false;
  const Message message = transport_->begin_receive(in_);
  std::memcpy(transport_->begin_send(out_).data(), message.payload.data(), message.payload.size());
  transport_->commit_send(out_, {messages_++}, message.payload.size());
  transport_->release(in_);
  return true;
}

bool SaveStream::send_own() {
  if (own_.empty() || !transport_->can_send(out_)) return false;
  const SavedShare& share = own_.front();
  const PieceHead head{share.mini_batch, share.share, static_cast<int64_t>(share.bytes.size())};
  const size_t bytes = std::min(kMostPieceBytes, share.bytes.size() - sent_);
  const std::span<std::byte> payload = transport_->begin_send(out_);
  std::memcpy(payload.data(), &head, sizeof(head));
  if (bytes > 0) std::memcpy(payload.data() + sizeof(head), share.bytes.data() + sent_, bytes);
  transport_->commit_send(out_, {messages_++}, sizeof(head) + bytes);
  sent_ += bytes;
  if (sent_ < share.bytes.size()) return true;
  own_.pop_front();
  sent_ = 0;
  return true;
}

bool SaveStream::take_in() {
  if (in_ < 0 || !transport_->has_message(in_)) return false;
  const Message message = transport_->begin_receive(in_);
  PieceHead head;
  std::memcpy(&head, message.payload.data(), sizeof(head));
  SavedShare& share = open_[{head.mini_batch, head.share}];
  share.mini_batch = head.mini_batch;
  share.share = head.share;
  const auto piece = message.payload.subspan(sizeof(head));
  share.bytes.insert(share.bytes.end(), piece.begin(), piece.end());
  if (static_cast<int64_t>(share.bytes.size()) == head.total) {
    complete_.push_back(std::move(share));
    open_.erase({head.mini_batch, head.share});
  }
  transport_->release(in_);
  return true;
}

void SaveStream::look(std::vector<Interest>& missing) const {
  const bool arrived = in_ >= 0 && transport_->has_message(in_);
  if (in_ >= 0 && !arrived) missing.push_back({Want::kMessage, in_});
  if (out_ >= 0 && (arrived || !own_.empty())) missing.push_back({Want::kCredit, out_});
}

}  // namespace millrace
