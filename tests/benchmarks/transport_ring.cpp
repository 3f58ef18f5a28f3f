// The transport over MPI against bare MPI, in one run: ping-pong between two ranks, and a ring in which every rank sends to the
// next and receives from the previous one at the same time.
//
//   python3 tests/benchmarks/transport_ring.py --ranks 2 --json transport.json      # starts it as one should
//   mpirun -n 2 build/release/bin/transport_ring --seconds 0.5
//
// Bare MPI is MPI_Send and MPI_Recv in the ping-pong, MPI_Irecv, MPI_Isend and MPI_Waitall in the ring, on two buffers in turn
// for either direction, as the transport has them. Payloads are written once, before; afterwards neither side touches them, but for
// the checksum when that is on, and in the ring "in use", where every rank writes what it sends and reads what it has received, as in a
// training: between ranks of one host the transport copies nothing, and what nobody touches takes no time. Blocks of both sides alternate,
// and the fastest block of each counts: other programs only ever make one slower. Both run with the same settings of MPI (yielding when
// idle).
#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/files.h"
#include "transport/mpi/mpi_session.h"
#include "transport/mpi/mpi_wire.h"
#include "transport/streams/agreement.h"

namespace millrace {

namespace {

using nlohmann::json;

constexpr int64_t kBuffers = 2;

double now() { return std::chrono::duration<double>(machine_clock().now()).count(); }

// One way of doing something, timed in blocks.
struct Contestant {
  std::string name;
  std::function<void()> once;
  double best = std::numeric_limits<double>::infinity();  // seconds
};

// All ranks do the same blocks; rank 0 decides how many repetitions make one.
void compete(std::vector<Contestant>& contestants, double seconds) {
  double slowest = 1e-7;
  for (Contestant& contestant : contestants) {  // warm up, and see how long it takes
    for (int i = 0; i < 20; ++i) contestant.once();
    double fastest = std::numeric_limits<double>::infinity();
    for (int batch = 0; batch < 5; ++batch) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = now();
      for (int i = 0; i < 20; ++i) contestant.once();
      fastest = std::min(fastest, (now() - start) / 20);
    }
    slowest = std::max(slowest, fastest);
  }
  // A block of some milliseconds, and of many more messages than may be ahead: short enough that some run undisturbed on a busy machine.
  int repetitions = std::max(20, static_cast<int>(1.5e-3 / slowest));
  MPI_Bcast(&repetitions, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const double until = now() + seconds;
  for (int go = 1; go != 0;) {
    for (Contestant& contestant : contestants) {
      MPI_Barrier(MPI_COMM_WORLD);
      contestant.once();  // the others have left the barrier as well
      const double start = now();
      for (int i = 0; i < repetitions; ++i) contestant.once();
      MPI_Barrier(MPI_COMM_WORLD);
      contestant.best = std::min(contestant.best, (now() - start) / repetitions);
    }
    go = now() < until ? 1 : 0;
    MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
}

// Buffers of bare MPI, used in turn.
struct Buffers {
  explicit Buffers(size_t bytes) : places(kBuffers, std::vector<std::byte>(bytes, std::byte{1})) {}
  std::byte* next() { return places[turn++ % places.size()].data(); }
  std::vector<std::vector<std::byte>> places;
  size_t turn = 0;
};

// A transport with what the benchmark sends: flow r from rank r to the next; in a ring of two, 0 to 1 and 1 to 0.
std::unique_ptr<Transport> open_transport(MpiSession& session, size_t bytes, bool checksums) {
  FlowTable table;
  table.devices = session.ranks();
  for (int64_t r = 0; r < session.ranks(); ++r)
    table.flows.push_back({.stream = r + 1 < session.ranks() ? Stream::kActivation : Stream::kError,
                           .tensor = "benchmark",
                           .from = r,
                           .to = (r + 1) % session.ranks(),
                           .most_bytes = bytes,
                           .credits = kBuffers});
  auto transport = std::make_unique<Transport>(make_ring_wire(session.world()), TransportSettings{.checksums = checksums});
  transport->open(table);
  return transport;
}

void write_all(std::byte* to, size_t bytes) {
  static std::byte value{};
  value = static_cast<std::byte>(std::to_integer<int>(value) + 1);
  std::fill(to, to + bytes, value);
}
void read_all(const std::byte* from, size_t bytes) {
  static volatile uint64_t seen = 0;
  std::array<uint64_t, 8> sums{};
  for (size_t at = 0; at + sizeof(sums) <= bytes; at += sizeof(sums)) {
    std::array<uint64_t, 8> words;
    std::memcpy(words.data(), from + at, sizeof(words));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += words[i];
  }
  seen = seen + std::accumulate(sums.begin(), sums.end(), uint64_t{0});
}

struct Streamer {
  Transport& transport;
  int64_t out, in;
  size_t bytes;
  bool in_use = false;
  int64_t sent = 0, received = 0;

  void send() {
    const std::array wanted = {Interest{Want::kCredit, out, {sent}}};
    if (!transport.can_send(out)) transport.wait(wanted);
    const std::span<std::byte> payload = transport.begin_send(out);
    if (sent < kBuffers || in_use) write_all(payload.data(), bytes);  // the first time real pages instead of the kernel's page of zeros
    transport.commit_send(out, {sent++}, bytes);
  }
  void receive() {
    const std::array wanted = {Interest{Want::kMessage, in, {received}}};
    transport.wait(wanted);
    const std::span<const std::byte> payload = transport.begin_receive(in, {received++}, bytes);
    if (in_use) read_all(payload.data(), bytes);
    transport.release(in);
  }
};

json ping_pong(MpiSession& session, size_t bytes, double seconds) {
  const int rank = static_cast<int>(session.rank());
  const int peer = 1 - rank;
  Buffers outgoing(bytes), incoming(bytes);
  const auto plain = open_transport(session, bytes, false);
  const auto checked = open_transport(session, bytes, true);
  Streamer plain_streamer{*plain, rank, peer, bytes};
  Streamer checked_streamer{*checked, rank, peer, bytes};
  const auto turn = [rank](Streamer& streamer) {
    if (rank == 0) streamer.send();
    streamer.receive();
    if (rank == 1) streamer.send();
  };
  std::vector<Contestant> contestants(3);
  contestants[0] = {"mpi", [&] {
                      const int count = static_cast<int>(bytes);
                      if (rank == 0) MPI_Send(outgoing.next(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
                      MPI_Recv(incoming.next(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                      if (rank == 1) MPI_Send(outgoing.next(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
                    }};
  contestants[1] = {"transport", [&] { turn(plain_streamer); }};
  contestants[2] = {"transport_checksums", [&] { turn(checked_streamer); }};
  compete(contestants, seconds);
  Agreement(*plain).close();
  Agreement(*checked).close();
  json result{{"pattern", "ping-pong"}, {"ranks", 2}, {"bytes", bytes}};
  for (const Contestant& contestant : contestants) {
    result[contestant.name + "_one_way_us"] = 0.5e6 * contestant.best;
    result[contestant.name + "_gigabytes_per_second"] = 2e-9 * static_cast<double>(bytes) / contestant.best;
  }
  for (size_t i : {size_t{1}, size_t{2}}) {
    result[contestants[i].name + "_latency_ratio"] = contestants[i].best / contestants[0].best;
    result[contestants[i].name + "_bandwidth_ratio"] = contestants[0].best / contestants[i].best;
  }
  return result;
}

json ring(MpiSession& session, size_t bytes, double seconds, bool in_use) {
  const auto ranks = static_cast<int>(session.ranks());
  const int rank = static_cast<int>(session.rank());
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  Buffers outgoing(bytes), incoming(bytes);
  const auto plain = open_transport(session, bytes, false);
  const auto checked = open_transport(session, bytes, true);
  Streamer plain_streamer{*plain, rank, previous, bytes, in_use};
  Streamer checked_streamer{*checked, rank, previous, bytes, in_use};
  const auto turn = [](Streamer& streamer) {
    streamer.send();
    streamer.receive();
  };
  std::vector<Contestant> contestants(3);
  contestants[0] = {"mpi", [&] {
                      const int count = static_cast<int>(bytes);
                      std::array<MPI_Request, 2> requests;
                      std::byte* const into = incoming.next();
                      std::byte* const from = outgoing.next();
                      if (in_use) write_all(from, bytes);
                      MPI_Irecv(into, count, MPI_BYTE, previous, 0, MPI_COMM_WORLD, &requests[0]);
                      MPI_Isend(from, count, MPI_BYTE, next, 0, MPI_COMM_WORLD, &requests[1]);
                      MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
                      if (in_use) read_all(into, bytes);
                    }};
  contestants[1] = {"transport", [&] { turn(plain_streamer); }};
  contestants[2] = {"transport_checksums", [&] { turn(checked_streamer); }};
  compete(contestants, seconds);
  Agreement(*plain).close();
  Agreement(*checked).close();
  json result{{"pattern", in_use ? "ring in use" : "ring"}, {"ranks", ranks}, {"bytes", bytes}};
  for (const Contestant& contestant : contestants) {
    result[contestant.name + "_step_us"] = 1e6 * contestant.best;
    result[contestant.name + "_gigabytes_per_second_per_rank"] = 1e-9 * static_cast<double>(bytes) / contestant.best;
  }
  for (size_t i : {size_t{1}, size_t{2}}) result[contestants[i].name + "_bandwidth_ratio"] = contestants[0].best / contestants[i].best;
  return result;
}

int run(int argc, char** argv) {
  double seconds = 0.5;
  std::string out;
  std::vector<size_t> sizes = {8, 4096, 65536, 1 << 20, 4 << 20};
  CLI::App app("The transport over MPI against bare MPI.");
  app.add_option("--seconds", seconds, "for each size and pattern");
  app.add_option("--sizes", sizes, "bytes of a message")->delimiter(',');
  app.add_option("--json", out, "where to write the results");
  CLI11_PARSE(app, argc, argv);
  return run_with_mpi({}, [&](MpiSession& session) {
    json results = json::array();
    for (const size_t bytes : sizes) {
      if (session.ranks() == 2) results.push_back(ping_pong(session, bytes, seconds));
      for (const bool in_use : {false, true})
        if (session.ranks() >= 2) results.push_back(ring(session, bytes, seconds, in_use));
      if (session.rank() == 0) fmt::print("{} bytes done\n", bytes);
    }
    if (session.rank() == 0 && !out.empty())
      write_atomically(out,
                       json{{"origin", "measured"}, {"crc32c_in_hardware", crc32c_in_hardware()}, {"results", results}}.dump(2) + "\n");
    return 0;
  });
}

}  // namespace

}  // namespace millrace

int main(int argc, char** argv) { return millrace::run(argc, argv); }
