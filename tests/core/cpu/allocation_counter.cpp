#include "tests/core/cpu/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

// Where this executable's code begins and ends, from the linker.
extern "C" const char __executable_start;
extern "C" const char etext;

namespace millrace::testing {

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

int64_t own_allocations() { return allocations; }

void note_allocation(const void* caller) {
  const auto* code = static_cast<const char*>(caller);
  if (&__executable_start <= code && code < &etext) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace millrace::testing

void* operator new(size_t size) {
  millrace::testing::note_allocation(__builtin_return_address(0));
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {  // a sanitizer's own would not be freed by what follows
  millrace::testing::note_allocation(__builtin_return_address(0));
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
