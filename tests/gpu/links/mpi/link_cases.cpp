// What one rank of each MPI test of links does; run_mpi_case.py (tests/transport/mpi) starts it under mpirun and judges how the job ends.
//
//   mpirun -n 4 build/release/bin/link_cases same_bits
//   build/release/bin/link_cases launch-command 4       how to start it here
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>

#include "core/base/check.h"
#include "core/base/log.h"
#include "tests/gpu/links/link_ring.h"
#include "transport/mpi/mpi_launch.h"
#include "transport/mpi/mpi_session.h"
#include "transport/mpi/mpi_wire.h"

namespace millrace::testing {
namespace {

LinkRun run_here(const LinkCase& c, MpiSession& session) { return run_rank(c, make_ring_wire(session.world())); }

void compare(const LinkCase& c, MpiSession& session) {
  const LinkRun lines = run_here(c, session);
  LinkCase host = c;
  host.use = LinkUse::kMpi;
  const LinkRun same = run_here(host, session);
  MILLRACE_CHECK(lines.weights == same.weights && lines.counters == same.counters, "rank {}: weights {} and {}", session.rank(),
                 lines.weights, same.weights);
  MILLRACE_CHECK(same.transfers == 0 && same.device_flows == 0, "{} transfers with MPI alone", same.transfers);
  if (session.rank() > 0) return;
  MILLRACE_CHECK(!lines.weights.empty(), "no weights");
  fmt::print("{}; {} transfers, weights {}\n", lines.links, lines.transfers, lines.weights);
}

void same_bits(MpiSession& session) { compare({.devices = 4, .gpus = {0, 1, 2, 3}, .steps = 1}, session); }
void mixed(MpiSession& session) { compare({.devices = 4, .gpus = {0, 1, 2}, .steps = 1, .alignment = Alignment::kFpdeep}, session); }

// Rank 1 goes in the middle of its transfers, of which the first are receives posted before training begins.
void until_signal(MpiSession& session, int number) {
  LinkCase c{
      .devices = session.ranks(), .gpus = {0, 1, 2, 3}, .steps = 1000, .deadline = std::chrono::seconds(number == SIGSTOP ? 12 : 100)};
  c.drivers[1] = {.seed = 5, .before_transfer = [number](int64_t transfer) {
                    if (transfer == 200) raise(number);
                  }};
  static_cast<void>(run_here(c, session));
}

void refused(MpiSession& session) { static_cast<void>(run_here({.devices = 2, .gpus = {0}, .use = LinkUse::kNccl, .steps = 1}, session)); }

int run(int argc, char** argv) {
  const std::map<std::string, std::function<void(MpiSession&)>> cases = {
      {"same_bits", same_bits},
      {"mixed", mixed},
      {"stopped", [](MpiSession& session) { until_signal(session, SIGSTOP); }},
      {"killed", [](MpiSession& session) { until_signal(session, SIGKILL); }},
      {"refused", refused},
  };
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "launch-command") {
    fmt::print("{}\n", launch_command(std::stoll(argv[2]), 2, false, geteuid() == 0));
    return 0;
  }
  const auto found = cases.find(name);
  if (found == cases.end()) {
    fmt::print(stderr, "no case \"{}\"\n", name);
    return 2;
  }
  return run_with_mpi({}, [&](MpiSession& session) {
    log::set_prefix(fmt::format("rank {}", session.rank()));
    found->second(session);
    return 0;
  });
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) { return millrace::testing::run(argc, argv); }
