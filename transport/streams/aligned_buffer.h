// Memory that starts on a boundary of 64 bytes and is never moved: slots and staging places of frames.
//
//   AlignedBuffer buffer(slots * slot_bytes);
//   std::byte* slot = buffer.data() + 3 * slot_bytes;
//
// Owns its memory; movable. Contents start undefined. Fails with kUnavailable when there is not that much memory.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "core/base/error.h"

namespace millrace {

inline constexpr size_t kSlotAlignment = 64;

// A wire may round its slots up to this much.
inline constexpr size_t kSlotPage = 4096;

// The next multiple of the alignment.
inline size_t aligned(size_t bytes, size_t alignment = kSlotAlignment) { return (bytes + alignment - 1) / alignment * alignment; }

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    data_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kSlotAlignment}, std::nothrow)));
    if (!data_)
      fail(ErrorCode::kUnavailable, "no memory for {} bytes of message buffers; use a smaller micro-batch or fewer credits", bytes);
  }

  std::byte* data() const { return data_.get(); }
  size_t size() const { return bytes_; }

 private:
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{kSlotAlignment}); }
  };
  std::unique_ptr<std::byte, Delete> data_;
  size_t bytes_ = 0;
};

}  // namespace millrace
