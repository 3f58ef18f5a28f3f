#include "node/ring/save_collector.h"

#include <algorithm>
#include <utility>

#include "core/base/index.h"

namespace millrace {

SaveCollector::SaveCollector(const RingContext& context, const RingFlows& flows, std::vector<int64_t> devices, int64_t shares)
    : context_(context), devices_(std::move(devices)), shares_(shares) {
  for (const int64_t device : devices_) streams_.emplace_back(*context.transport, flows, device);
}

void SaveCollector::push(int64_t mini_batch, int64_t device, std::vector<std::byte> share) {
  const auto place = std::ranges::find(devices_, device) - devices_.begin();
  item(streams_, place).push({.mini_batch = mini_batch, .share = device, .bytes = std::move(share)});
}

bool SaveCollector::step() {
  bool acted = false;
  for (SaveStream& stream : streams_) acted = stream.step() || acted;
  return acted;
}

void SaveCollector::look(std::vector<Interest>& missing) const {
  for (const SaveStream& stream : streams_) stream.look(missing);
}

bool SaveCollector::idle() const { return std::ranges::all_of(streams_, &SaveStream::idle); }

// The checkpoint that this share completes; null: it lacks others.
SaveAssembler* SaveCollector::add(const SavedShare& share) {
  Collected& collected = collected_[share.mini_batch];
  if (!collected.assembler) collected.assembler = std::make_unique<SaveAssembler>(context_.plan(), context_.graph());
  collected.assembler->add(share.bytes);
  return ++collected.shares < shares_ ? nullptr : collected.assembler.get();
}

}  // namespace millrace
