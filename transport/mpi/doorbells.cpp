#include "transport/mpi/doorbells.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "transport/mpi/mpi_handles.h"

namespace millrace {

// A cache line each: who rings one does not disturb the others.
struct alignas(64) Doorbells::Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> asleep;
};

namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is such a word");

using Name = std::array<char, 64>;

// Empty when there is no such memory here.
Name make_memory(size_t bytes) {
  std::array<uint64_t, 2> unguessable{};
  Name name{};
  if (getrandom(unguessable.data(), sizeof(unguessable), 0) != static_cast<ssize_t>(sizeof(unguessable))) return {};
  fmt::format_to_n(name.data(), name.size() - 1, "/millrace-bells-{:016x}{:016x}", unguessable[0], unguessable[1]);
  const int file = shm_open(name.data(), O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR);
  if (file < 0) return {};
  const bool sized = ftruncate(file, static_cast<off_t>(bytes)) == 0;
  close(file);
  if (sized) return name;
  shm_unlink(name.data());
  return {};
}

void* map_of(const Name& name, size_t bytes) {
  if (name[0] == '\0') return nullptr;
  const int file = shm_open(name.data(), O_RDWR, 0);
  if (file < 0) return nullptr;
  struct stat facts {};
  const bool ours = fstat(file, &facts) == 0 && facts.st_uid == geteuid() && std::cmp_greater_equal(facts.st_size, bytes);
  void* const map = ours ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  return map == MAP_FAILED ? nullptr : map;
}

constexpr const char* kMaking = "sharing memory with the ranks of this host";

}  // namespace

Doorbells::Doorbells(MPI_Comm communicator) {
  int rank = 0, ranks = 1;
  check_mpi(MPI_Comm_rank(communicator, &rank), kMaking);
  check_mpi(MPI_Comm_size(communicator, &ranks), kMaking);
  place_of_.assign(static_cast<size_t>(ranks), -1);
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), kMaking);
  int place = 0, count = 1;
  check_mpi(MPI_Comm_rank(host, &place), kMaking);
  check_mpi(MPI_Comm_size(host, &count), kMaking);
  own_ = static_cast<size_t>(place);
  count_ = static_cast<size_t>(count);
  std::vector<int> here(count_);
  check_mpi(MPI_Allgather(&rank, 1, MPI_INT, here.data(), 1, MPI_INT, host), kMaking);
  for (int i = 0; i < count; ++i) place_of_[static_cast<size_t>(here[static_cast<size_t>(i)])] = i;
  if (count_ > 1) share(host);
  count_cores(host);
  check_mpi(MPI_Comm_free(&host), kMaking);
}

// All of the host have it, or none: a bell that one of them cannot ring would not wake who relies on it. New memory is zero, as the
// bells are to be.
void Doorbells::share(MPI_Comm host) {
  Name name{};
  if (own_ == 0) name = make_memory(count_ * sizeof(Bell));
  check_mpi(MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, host), kMaking);
  bells_ = static_cast<Bell*>(map_of(name, count_ * sizeof(Bell)));
  int mine = bells_ != nullptr ? 1 : 0, all = 0;
  check_mpi(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, host), kMaking);
  if (own_ == 0 && name[0] != '\0') shm_unlink(name.data());
  if (all != 0) return;
  if (bells_ != nullptr) munmap(bells_, count_ * sizeof(Bell));
  bells_ = nullptr;
}

// Of all together: ranks bound to a core each are no crowd.
void Doorbells::count_cores(MPI_Comm host) {
  cpu_set_t mine, all;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0) return;
  check_mpi(MPI_Allreduce(&mine, &all, sizeof(mine), MPI_BYTE, MPI_BOR, host), kMaking);
  crowded_ = count_ > static_cast<size_t>(CPU_COUNT(&all));
}

Doorbells::~Doorbells() {
  if (bells_ != nullptr) munmap(bells_, count_ * sizeof(Bell));
}

// Who is about to sleep says so before it looks at the count, who rings counts before it looks for sleepers: one of them sees the other.
void Doorbells::ring(int64_t rank) {
  Bell& bell = bells_[place_of_[static_cast<size_t>(rank)]];
  bell.rings.fetch_add(1);
  if (bell.asleep.load() != 0) syscall(SYS_futex, &bell.rings, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

uint32_t Doorbells::heard() const { return bells_ == nullptr ? 0 : bells_[own_].rings.load(); }

bool Doorbells::sleep(uint32_t heard, Nanoseconds at_most) {
  Bell& bell = bells_[own_];
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = (at_most - seconds).count()};
  bell.asleep.store(1);
  // The kernel compares once more: it returns at once when the bell has rung meanwhile.
  syscall(SYS_futex, &bell.rings, FUTEX_WAIT, heard, &time, nullptr, 0);
  bell.asleep.store(0);
  return bell.rings.load() != heard;
}

}  // namespace millrace
