// One rank's part in checkpoints: what its devices have saved goes on its way to rank 0, where it becomes whole.
//
//   SaveCollector saves(context, flows, devices, shares);         // this rank's devices
//   saves.push(mini_batch, device, share);
//   while (saves.step()) {}
//   saves.collect([&](int64_t mini_batch, SaveAssembler& content) { ... });      // rank 0: checkpoints that are complete
//
// Borrows the context's transport and plan. Memory: the shares that have not left yet, on rank 0 those of unfinished checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "node/ring/ring_context.h"
#include "node/ring/save_records.h"
#include "node/ring/save_stream.h"

namespace millrace {

class SaveCollector {
 public:
  // `shares` make a checkpoint.
  SaveCollector(const RingContext& context, const RingFlows& flows, std::vector<int64_t> devices, int64_t shares);

  void push(int64_t mini_batch, int64_t device, std::vector<std::byte> share);
  bool step();
  void look(std::vector<Interest>& missing) const;
  // Nothing of this rank's own is left to send.
  bool idle() const;

  template <typename Take>
  void collect(const Take& take) {
    for (const SavedShare& share : streams_.front().take())
      if (SaveAssembler* complete = add(share)) {
        take(share.mini_batch, *complete);
        collected_.erase(share.mini_batch);
      }
  }

 private:
  struct Collected {
    std::unique_ptr<SaveAssembler> assembler;
    int64_t shares = 0;
  };
  SaveAssembler* add(const SavedShare& share);

  RingContext context_;
  std::vector<int64_t> devices_;
  int64_t shares_;
  std::vector<SaveStream> streams_;         // by place among devices_
  std::map<int64_t, Collected> collected_;  // rank 0: by mini-batch
};

}  // namespace millrace
