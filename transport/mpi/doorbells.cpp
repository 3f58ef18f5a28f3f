#include "transport/mpi/doorbells.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

#include "core/base/index.h"
#include "transport/mpi/host_memory.h"
#include "transport/mpi/mpi_handles.h"

namespace millrace {

// A cache line each: who rings one does not disturb the others.
struct alignas(64) Doorbells::Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> asleep;
};

namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is such a word");

// Behind the token, in a line of its own.
constexpr size_t kBellsAt = 64;
static_assert(HostMemory::kTokenBytes <= kBellsAt);

constexpr const char* kMaking = "sharing memory with the ranks of this host";

}  // namespace

Doorbells::Doorbells(MPI_Comm communicator) {
  int rank = 0, ranks = 1;
  check_mpi(MPI_Comm_rank(communicator, &rank), kMaking);
  check_mpi(MPI_Comm_size(communicator, &ranks), kMaking);
  place_of_.assign(to_size(ranks), -1);
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), kMaking);
  int place = 0, count = 1;
  check_mpi(MPI_Comm_rank(host, &place), kMaking);
  check_mpi(MPI_Comm_size(host, &count), kMaking);
  own_ = to_size(place);
  count_ = to_size(count);
  std::vector<int> here(count_);
  check_mpi(MPI_Allgather(&rank, 1, MPI_INT, here.data(), 1, MPI_INT, host), kMaking);
  for (int i = 0; i < count; ++i) item(place_of_, item(here, i)) = i;
  if (count_ > 1) share(host);
  count_cores(host);
  check_mpi(MPI_Comm_free(&host), kMaking);
}

// All of the host have it, or none: a bell that one of them cannot ring would not wake who relies on it. New memory is zero, as the
// bells are to be.
void Doorbells::share(MPI_Comm host) {
  HostMemory memory;
  if (own_ == 0) memory = HostMemory::make(mapped_bytes());
  HostMemoryPlace place = memory.place();
  check_mpi(MPI_Bcast(&place, sizeof(place), MPI_BYTE, 0, host), kMaking);
  if (own_ != 0) memory = HostMemory::open(place, mapped_bytes());
  void* const map = memory ? mmap(nullptr, mapped_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory.file(), 0) : MAP_FAILED;
  if (map != MAP_FAILED) map_ = static_cast<std::byte*>(map);
  // Its owner has it open until all have seen it.
  int mine = map_ != nullptr ? 1 : 0, all = 0;
  check_mpi(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, host), kMaking);
  if (all == 0)
    unmap();
  else
    bells_ = reinterpret_cast<Bell*>(map_ + kBellsAt);
}

size_t Doorbells::mapped_bytes() const { return kBellsAt + count_ * sizeof(Bell); }

void Doorbells::unmap() {
  if (map_ != nullptr) munmap(map_, mapped_bytes());
  map_ = nullptr;
}

// Of all together: ranks bound to a core each are no crowd.
void Doorbells::count_cores(MPI_Comm host) {
  cpu_set_t mine, all;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0) return;
  check_mpi(MPI_Allreduce(&mine, &all, sizeof(mine), MPI_BYTE, MPI_BOR, host), kMaking);
  crowded_ = count_ > to_size(CPU_COUNT(&all));
}

Doorbells::~Doorbells() { unmap(); }

// Who is about to sleep says so before it looks at the count, who rings counts before it looks for sleepers: one of them sees the other.
void Doorbells::ring(int64_t rank) {
  Bell& bell = bells_[item(place_of_, rank)];
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
