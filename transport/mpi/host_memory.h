// Internal to transport/mpi: memory without a name that the ranks of one host share.
//
//   HostMemory mine = HostMemory::make(bytes);                  // tell the others mine.place(), by MPI
//   HostMemory theirs = HostMemory::open(place, bytes);         // nothing when this rank cannot see it
//   if (theirs) mmap(..., theirs.file(), 0);
//
// It lies in no folder, so nobody else finds it, a full /dev/shm does not matter, and it is gone with the last process that has it, however
// that ends. Others open it by process and number, as far as the kernel lets them trace that process: the same user, within one namespace
// of processes and users. Its first bytes are a random token that its owner told them, for a number may mean another file there. Owns the
// open file. Fails never: without memory there is nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace millrace {

// Where it is found on its host; sent between ranks as it is.
struct HostMemoryPlace {
  int64_t pid = 0;  // 0: nowhere
  int64_t number = -1;
  std::array<uint64_t, 2> token = {};
};

class HostMemory {
 public:
  static constexpr size_t kTokenBytes = sizeof(HostMemoryPlace::token);

  HostMemory() = default;
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept : file_(std::exchange(other.file_, -1)), place_(other.place_) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(place_, other.place_);
    return *this;
  }

  // Zero behind the token.
  static HostMemory make(size_t bytes);
  // `least`: so large it must be.
  static HostMemory open(const HostMemoryPlace& place, size_t least);

  explicit operator bool() const { return file_ >= 0; }
  int file() const { return file_; }
  const HostMemoryPlace& place() const { return place_; }

 private:
  HostMemory(int file, const HostMemoryPlace& place) : file_(file), place_(place) {}

  int file_ = -1;
  HostMemoryPlace place_;
};

}  // namespace millrace
