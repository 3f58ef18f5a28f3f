#include "core/cpu/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/base/error.h"

namespace millrace::cpu {

namespace {

// From here on the system is asked for large pages: a fully connected layer's weights span 100,000 small ones.
constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  const size_t alignment = bytes >= kLargePage ? kLargePage : kAlignment;
  const size_t rounded = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (memory_ == nullptr)
    fail(ErrorCode::kUnavailable, "{} MiB of memory are not to be had; use a smaller micro-batch or more devices", rounded >> 20);
  if (alignment == kLargePage) madvise(memory_.get(), rounded, MADV_HUGEPAGE);  // a wish: nothing depends on it
  std::memset(memory_.get(), 0, rounded);
}

void Buffer::Free::operator()(std::byte* memory) const { std::free(memory); }

}  // namespace millrace::cpu
