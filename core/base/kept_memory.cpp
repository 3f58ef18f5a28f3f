#include "core/base/kept_memory.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace millrace {
namespace {

constexpr size_t kLeastKept = size_t{1} << 20, kMostKept = size_t{64} << 20;

class KeptMemory final : public std::pmr::memory_resource {
 public:
  ~KeptMemory() override {
    for (const Block& block : blocks_) usual_->deallocate(block.memory, block.bytes);
  }

 private:
  struct Block {
    size_t bytes = 0;
    void* memory = nullptr;
  };
  static bool is_kept(size_t bytes, size_t alignment) { return bytes >= kLeastKept && alignment <= alignof(std::max_align_t); }

  void* do_allocate(size_t bytes, size_t alignment) override {
    if (is_kept(bytes, alignment)) {
      const std::scoped_lock lock(mutex_);
      const auto known = std::ranges::find(blocks_, bytes, &Block::bytes);
      if (known != blocks_.end()) {
        void* const memory = known->memory;
        blocks_.erase(known);
        bytes_kept_ -= bytes;
        return memory;
      }
    }
    return usual_->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override {
    if (is_kept(bytes, alignment)) {
      const std::scoped_lock lock(mutex_);
      if (bytes_kept_ + bytes <= kMostKept) {
        blocks_.push_back({bytes, memory});
        bytes_kept_ += bytes;
        return;
      }
    }
    usual_->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::pmr::memory_resource* const usual_ = std::pmr::new_delete_resource();
  std::mutex mutex_;
  std::vector<Block> blocks_;
  size_t bytes_kept_ = 0;
};

}  // namespace

std::pmr::memory_resource* kept_memory() {
  static KeptMemory memory;
  return &memory;
}

}  // namespace millrace
