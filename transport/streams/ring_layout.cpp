#include "transport/streams/ring_layout.h"

#include "core/base/error.h"

namespace millrace {

RingLayout ring_layout(int64_t devices, int64_t ranks) {
  constexpr int64_t kMost = int64_t{1} << 30;  // their product stays an int64
  if (devices < 1 || devices > kMost) fail(ErrorCode::kUsage, "a ring of {} devices; expected 1 to {}", devices, kMost);
  if (ranks < 1) fail(ErrorCode::kUsage, "a ring of {} ranks; expected at least 1", ranks);
  if (ranks > devices)
    fail(ErrorCode::kUsage, "{} ranks for {} device(s); a rank hosts at least one device: start {} ranks or fewer", ranks, devices,
         devices);
  return {.devices = devices, .ranks = ranks};
}

}  // namespace millrace
