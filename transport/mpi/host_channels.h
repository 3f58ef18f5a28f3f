// Internal to transport/mpi: channels between ranks of one host, whose slots both ends have mapped, so that nothing is copied and MPI is
// not asked.
//
//   HostChannels here(communicator, &bells);                        // all its ranks together
//   if (here.reaches(spec.peer)) Channel& channel = here.open(spec);
//   here.progress(arrivals);
//
// Every rank puts the slots it sends from into memory without a name (host_memory.h), a file to the kernel. A receiver may open a channel
// before or after the sender; it finds it in the sender's file, where channels lie one behind the other. A slot says by itself whether it
// is full; a frame counts as sent when the receiver has released it. `bells`, where given, wake a receiver that sleeps, and a sender that
// waits for a slot. Where the file of a neighbour cannot be opened, on any rank, no rank reaches any: they take MPI. Owns its maps and
// files. For the thread that made it. Fails with kUnavailable when there is no memory, and with kMismatch when the ends of a channel
// differ.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/base/index.h"
#include "transport/mpi/doorbells.h"
#include "transport/mpi/host_memory.h"
#include "transport/streams/wire.h"

namespace millrace {

class HostChannels {
 public:
  // With `wanted` false it reaches nobody.
  HostChannels(MPI_Comm communicator, Doorbells* bells, bool wanted);
  ~HostChannels();
  HostChannels(const HostChannels&) = delete;
  HostChannels& operator=(const HostChannels&) = delete;

  bool reaches(int64_t rank) const { return shared_ && item(places_, rank).pid != 0; }
  Channel& open(const ChannelSpec& spec);
  void progress(std::vector<Arrival>& arrivals);

 private:
  class Sender;
  class Receiver;
  struct FileHead;
  // What this rank knows of another's file.
  struct PeerFile {
    HostMemory memory;
    const FileHead* head = nullptr;
    uint64_t read = 0;  // of the channels in it
    std::vector<Receiver*> awaited;
  };

  void make_file();
  PeerFile open_file(int64_t rank) const;
  static void close_file(PeerFile& file);
  void share(MPI_Comm communicator, bool wanted);
  void look_for_awaited(PeerFile& file);

  int64_t rank_ = 0;
  Doorbells* bells_;
  bool shared_ = false;
  HostMemory memory_;
  FileHead* head_ = nullptr;
  std::vector<HostMemoryPlace> places_;  // by rank; nowhere: on another host
  std::map<int64_t, PeerFile> peers_;
  bool some_awaited_ = false;
  std::vector<std::unique_ptr<Sender>> senders_;
  std::vector<std::unique_ptr<Receiver>> receivers_;
};

}  // namespace millrace
