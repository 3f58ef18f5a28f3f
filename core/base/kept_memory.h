// Memory that is kept for who asks next, for what is large, soon over and made anew again and again: the first touch of each page that the
// system gives may take longer than all that is done with it.
//
//   std::pmr::monotonic_buffer_resource memory(size_t{8} << 20, kept_memory());
//   std::pmr::vector<Wait> waits(&memory);
//
// Blocks of 1 MiB and more are kept until others of 64 MiB in all are; smaller ones are usual allocations. Thread safe.
#pragma once

#include <memory_resource>

namespace millrace {

std::pmr::memory_resource* kept_memory();

}  // namespace millrace
