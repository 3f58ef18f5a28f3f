#include "transport/mpi/host_channels.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "transport/mpi/mpi_handles.h"
#include "transport/streams/aligned_buffer.h"
#include "transport/streams/frame.h"

namespace millrace {

struct HostChannels::FileHead {
  std::array<std::byte, HostMemory::kTokenBytes> token;
  std::atomic<uint64_t> end;  // of the channels that are there
};

namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share them");

constexpr const char* kSharing = "sharing memory with the ranks of this host";
constexpr size_t kHeadBytes = kSlotPage;

// At the beginning of a channel in its sender's file.
struct ChannelHead {
  int64_t to;
  int64_t tag;
  uint64_t slots;
  uint64_t payload_bytes;
  uint64_t bytes;  // of the channel in all
  // The sender found a slot in use, and may have gone to sleep.
  std::atomic<uint32_t> waits;
};

// A slot begins with a line that says how many bytes its frame has, 0 for none; header and payload follow.
constexpr size_t kStateBytes = 64;
using SlotState = std::atomic<uint64_t>;
constexpr size_t kSlotsAt = 128;

size_t stride_of(const ChannelSpec& spec) { return aligned(kStateBytes + kFrameHeaderBytes + spec.payload_bytes, 128); }
size_t bytes_of(const ChannelSpec& spec) { return aligned(kSlotsAt + spec.slots * stride_of(spec), kSlotPage); }
static_assert(sizeof(ChannelHead) <= kSlotsAt && sizeof(SlotState) <= kStateBytes);

// Memory of a channel. A receiver's is empty until it is found; its addresses are the same before.
class Map {
 public:
  explicit Map(size_t bytes) : bytes_(bytes), at_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (at_ == MAP_FAILED) fail(ErrorCode::kUnavailable, "no room for {} bytes of message buffers", bytes);
  }
  ~Map() { munmap(at_, bytes_); }
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;

  void show(int file, uint64_t offset) {
    if (mmap(at_, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset)) == MAP_FAILED)
      fail(ErrorCode::kUnavailable, "no memory for {} bytes of message buffers: {}", bytes_, std::strerror(errno));
  }
  std::byte* data() const { return static_cast<std::byte*>(at_); }
  ChannelHead& head() const { return *static_cast<ChannelHead*>(at_); }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_;
  void* at_;
};

// What both ends of a channel have.
class HostChannel : public Channel {
 public:
  HostChannel(const ChannelSpec& spec, std::unique_ptr<Map> map, Doorbells* bells)
      : Channel({{map->data() + kSlotsAt + kStateBytes, map->data() + kSlotsAt + kStateBytes + kFrameHeaderBytes},
                 stride_of(spec),
                 stride_of(spec)}),
        spec_(spec),
        map_(std::move(map)),
        bells_(bells) {}

 protected:
  SlotState& state(size_t slot) const { return *reinterpret_cast<SlotState*>(map_->data() + kSlotsAt + slot * stride_of(spec_)); }
  const ChannelSpec& spec() const { return spec_; }
  Map& map() const { return *map_; }
  Doorbells* bells() const { return bells_; }

 private:
  ChannelSpec spec_;
  std::unique_ptr<Map> map_;
  Doorbells* bells_;
};

}  // namespace

class HostChannels::Sender final : public HostChannel {
 public:
  using HostChannel::HostChannel;

  void send(size_t slot, size_t payload_bytes) override {
    state(slot).store(kFrameHeaderBytes + payload_bytes, std::memory_order_release);
    if (bells() != nullptr) bells()->ring(spec().peer);
  }
  // Who may sleep says what it waits for before it looks for the last time, and who releases looks for that afterwards.
  bool sent(size_t slot) override {
    if (state(slot).load(std::memory_order_acquire) == 0) return true;
    if (bells() == nullptr) return false;
    map().head().waits.store(1);
    return state(slot).load() == 0;
  }
  void receive_again(size_t) override { MILLRACE_CHECK(false, "a channel that sends"); }
};

class HostChannels::Receiver final : public HostChannel {
 public:
  Receiver(const ChannelSpec& spec, std::unique_ptr<Map> map, Doorbells* bells)
      : HostChannel(spec, std::move(map), bells), seen_(spec.slots, false) {}

  void send(size_t, size_t) override { MILLRACE_CHECK(false, "a channel that receives"); }
  bool sent(size_t) override { return true; }
  void receive_again(size_t slot) override {
    seen_[slot] = false;
    if (bells() == nullptr) {
      state(slot).store(0, std::memory_order_release);
      return;
    }
    state(slot).store(0);
    if (map().head().waits.load() != 0 && map().head().waits.exchange(0) != 0) bells()->ring(spec().peer);
  }

  void progress(std::vector<Arrival>& arrivals) {
    if (!found_) return;
    while (!seen_[next_]) {
      const uint64_t bytes = state(next_).load(std::memory_order_acquire);
      if (bytes == 0) return;
      seen_[next_] = true;
      arrivals.push_back({spec().token, to_size(std::min<uint64_t>(bytes, kFrameHeaderBytes + spec().payload_bytes))});
      next_ = next_ + 1 == spec().slots ? 0 : next_ + 1;
    }
  }

  // True when this is the sender's end.
  bool is(const ChannelHead& head, int64_t rank, int file, uint64_t offset) {
    if (head.tag != spec().tag) return false;
    if (head.slots != spec().slots || head.payload_bytes != spec().payload_bytes || head.bytes != map().size())
      fail(ErrorCode::kMismatch, "channel {} from rank {} to {}: {} slots of {} bytes at one end, {} of {} at the other", head.tag,
           spec().peer, rank, head.slots, head.payload_bytes, spec().slots, spec().payload_bytes);
    map().show(file, offset);
    found_ = true;
    return true;
  }

 private:
  bool found_ = false;
  std::vector<bool> seen_;  // by slot: reported, and not released yet
  size_t next_ = 0;
};

HostChannels::HostChannels(MPI_Comm communicator, Doorbells* bells, bool wanted) : bells_(bells) {
  int rank = 0, ranks = 1;
  check_mpi(MPI_Comm_rank(communicator, &rank), kSharing);
  check_mpi(MPI_Comm_size(communicator, &ranks), kSharing);
  rank_ = rank;
  places_.resize(to_size(ranks));
  if (ranks > 1) share(communicator, wanted);
}

HostChannels::~HostChannels() {
  senders_.clear();
  receivers_.clear();
  for (auto& [rank, peer] : peers_) close_file(peer);
  if (head_ != nullptr) munmap(head_, kHeadBytes);
}

void HostChannels::make_file() {
  memory_ = HostMemory::make(kHeadBytes);
  void* const map = memory_ ? mmap(nullptr, kHeadBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.file(), 0) : MAP_FAILED;
  if (map == MAP_FAILED) return;
  head_ = static_cast<FileHead*>(map);
  head_->end.store(kHeadBytes);
  item(places_, rank_) = memory_.place();
}

HostChannels::PeerFile HostChannels::open_file(int64_t rank) const {
  PeerFile peer;
  peer.read = kHeadBytes;
  peer.memory = HostMemory::open(item(places_, rank), kHeadBytes);
  void* const map = peer.memory ? mmap(nullptr, kHeadBytes, PROT_READ, MAP_SHARED, peer.memory.file(), 0) : MAP_FAILED;
  if (map != MAP_FAILED) peer.head = static_cast<const FileHead*>(map);
  return peer;
}

void HostChannels::close_file(PeerFile& file) {
  if (file.head != nullptr) munmap(const_cast<FileHead*>(file.head), kHeadBytes);
  file.head = nullptr;
}

// All of a host, or none: each opens the files of those beside it, which may end before it asks them for anything.
void HostChannels::share(MPI_Comm communicator, bool wanted) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, static_cast<int>(rank_), MPI_INFO_NULL, &host), kSharing);
  int place = 0, count = 1;
  check_mpi(MPI_Comm_rank(host, &place), kSharing);
  check_mpi(MPI_Comm_size(host, &count), kSharing);
  if (wanted && count > 1) make_file();
  struct Told {
    int64_t rank;
    HostMemoryPlace place;
  };
  const Told mine{rank_, item(places_, rank_)};
  std::vector<Told> told(to_size(count));
  check_mpi(MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, told.data(), sizeof(mine), MPI_BYTE, host), kSharing);
  bool all_have = true;
  for (const Told& one : told) {
    item(places_, one.rank) = one.place;
    all_have = all_have && one.place.pid != 0;
  }
  int works = all_have && count > 1 ? 1 : 0, all_work = 0;
  for (const int step : {1, count - 1}) {
    const int64_t beside = item(told, (place + step) % count).rank;
    if (works == 0 || peers_.contains(beside)) continue;
    const PeerFile& peer = peers_.emplace(beside, open_file(beside)).first->second;
    works = peer.head != nullptr ? 1 : 0;
  }
  check_mpi(MPI_Allreduce(&works, &all_work, 1, MPI_INT, MPI_MIN, host), kSharing);
  check_mpi(MPI_Comm_free(&host), kSharing);
  shared_ = all_work != 0;
}

Channel& HostChannels::open(const ChannelSpec& spec) {
  auto map = std::make_unique<Map>(bytes_of(spec));
  if (spec.outgoing) {
    const uint64_t offset = head_->end.load();
    if (ftruncate(memory_.file(), static_cast<off_t>(offset + map->size())) != 0)
      fail(ErrorCode::kUnavailable, "no memory for {} bytes of message buffers: {}", map->size(), std::strerror(errno));
    map->show(memory_.file(), offset);
    ChannelHead& head = map->head();
    head.to = spec.peer;
    head.tag = spec.tag;
    head.slots = spec.slots;
    head.payload_bytes = spec.payload_bytes;
    head.bytes = map->size();
    head_->end.store(offset + map->size(), std::memory_order_release);
    senders_.push_back(std::make_unique<Sender>(spec, std::move(map), bells_));
    return *senders_.back();
  }
  auto found = peers_.find(spec.peer);
  if (found == peers_.end()) found = peers_.emplace(spec.peer, open_file(spec.peer)).first;
  if (found->second.head == nullptr)
    fail(ErrorCode::kUnavailable, "rank {} shares its memory, and rank {} cannot open it; do all ranks run as one user?", spec.peer, rank_);
  receivers_.push_back(std::make_unique<Receiver>(spec, std::move(map), bells_));
  found->second.awaited.push_back(receivers_.back().get());
  // It may be there, read past for the sake of another.
  found->second.read = kHeadBytes;
  some_awaited_ = true;
  return *receivers_.back();
}

void HostChannels::look_for_awaited(PeerFile& file) {
  const uint64_t end = file.head->end.load(std::memory_order_acquire);
  while (file.read < end && !file.awaited.empty()) {
    alignas(ChannelHead) std::array<std::byte, sizeof(ChannelHead)> bytes;
    if (pread(file.memory.file(), bytes.data(), bytes.size(), static_cast<off_t>(file.read)) != static_cast<ssize_t>(bytes.size()))
      fail(ErrorCode::kIo, "reading the memory that another rank shares: {}", std::strerror(errno));
    const auto& head = *reinterpret_cast<const ChannelHead*>(bytes.data());
    if (head.to == rank_)
      std::erase_if(file.awaited, [&](Receiver* receiver) { return receiver->is(head, rank_, file.memory.file(), file.read); });
    MILLRACE_CHECK(head.bytes >= kSlotPage && head.bytes <= end - file.read, "a channel of {} bytes", head.bytes);
    file.read += head.bytes;
  }
}

void HostChannels::progress(std::vector<Arrival>& arrivals) {
  if (some_awaited_) {
    some_awaited_ = false;
    for (auto& [rank, peer] : peers_) {
      if (peer.awaited.empty()) continue;
      look_for_awaited(peer);
      some_awaited_ = some_awaited_ || !peer.awaited.empty();
    }
  }
  for (const auto& receiver : receivers_) receiver->progress(arrivals);
}

}  // namespace millrace
