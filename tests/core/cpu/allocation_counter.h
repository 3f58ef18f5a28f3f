// Counts what our own code allocates. The global operator new is replaced in allocation_counter.cpp; oneDNN calls it too,
// so only calls from this executable's own code count.
//
//   const AllocationCounter counter;
//   kernel->forward(arguments);
//   EXPECT_EQ(counter.count(), 0);
#pragma once

#include <cstdint>

namespace millrace::testing {

int64_t own_allocations();

class AllocationCounter {
 public:
  AllocationCounter() : before_(own_allocations()) {}
  int64_t count() const { return own_allocations() - before_; }

 private:
  int64_t before_;
};

}  // namespace millrace::testing
