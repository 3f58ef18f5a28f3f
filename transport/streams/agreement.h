// What all ranks do together, now and then: agree that they run the same thing, meet, hand a document round. All ranks make the
// same calls in the same order; anything else is kMismatch, naming both calls. Every wait has the transport's deadline.
//
//   Agreement agreement(transport);
//   const std::string plan = agreement.broadcast("plan", rank == 0 ? read_text(path) : "");
//   agreement.require_equal("build", std::string(kVersion));          // or every rank fails with the same message
//   agreement.require_all("opening devices", problem);                // "" where all is well
//   agreement.barrier("start");
//   const std::vector<std::string> all = agreement.gather("losses", mine);     // on rank 0; empty elsewhere
//   agreement.close();                                                         // nobody leaves before all is delivered
//
// Borrows the transport; one Agreement per transport. Built on control messages alone, so it works before flows are open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/streams/transport.h"

namespace millrace {

class Agreement {
 public:
  explicit Agreement(Transport& transport) : transport_(transport) {}

  int64_t rank() const { return transport_.rank(); }
  int64_t ranks() const { return transport_.ranks(); }

  void barrier(std::string_view name);
  // Rank 0's content, on every rank; checked by its digest.
  std::string broadcast(std::string_view what, std::string_view content);
  // By rank, on rank 0.
  std::vector<std::string> gather(std::string_view what, std::string_view mine);
  // Fails everywhere with kMismatch, in the same words, naming the first rank that differs from rank 0, and both values.
  void require_equal(std::string_view what, std::string_view value);
  // Fails everywhere, in the same words, with the problem of the first rank that has one.
  void require_all(std::string_view what, std::string_view problem, ErrorCode code = ErrorCode::kUnavailable);
  // Waits until everything sent has arrived, everywhere, and takes leave: the last call. Every message must have been released.
  void close();

 private:
  enum class Call : uint32_t { kBarrier, kBroadcast, kGather };
  struct Part;

  void begin(Call call, std::string_view name);
  std::string where() const;
  void send_parts(int64_t to, std::string_view content);
  void send_part(int64_t to, uint64_t total, std::string_view digest, std::string_view content);
  // The next part of this call, from any rank; `from` is the one to name when none comes.
  Part await_part(int64_t from);
  bool complete(std::string& content, const Part& part) const;
  void verdict(ErrorCode code, std::string_view problem);

  Transport& transport_;
  uint64_t calls_ = 0;
  Call call_ = Call::kBarrier;
  std::string name_;
};

}  // namespace millrace
