#include "deploy/session/simulate_ranks.h"

#include <chrono>

#include "node/simulate/simulate_parallel.h"
#include "transport/mpi/mpi_session.h"
#include "transport/mpi/mpi_wire.h"
#include "transport/streams/agreement.h"

namespace millrace {
namespace {

// Planning may take longer than ranks wait for one another as a rule.
constexpr TransportSettings kPatient{.deadline = std::chrono::minutes(10)};

std::string shared_plan(MpiSession& session, const PlanMaker& make) {
  Transport transport(make_ring_wire(session.world()), kPatient);
  Agreement agreement(transport);
  std::string text = agreement.broadcast("plan", session.rank() == 0 ? text_of(make()) : "");
  agreement.close();
  return text;
}

}  // namespace

bool under_mpirun() { return MpiSession::launched(); }

int simulate_on_ranks(const PlanMaker& make, const OptionsMaker& options, const ResultReader& show) {
  return run_with_mpi({}, [&](MpiSession& session) {
    const Plan plan = parse_plan(shared_plan(session, make), "plan");
    const Graph graph(plan.model);
    Transport transport(make_ring_wire(session.world()), kPatient);
    const SimulationResult result = simulate(plan, graph, options(plan, graph), transport);
    if (session.rank() == 0) show(plan, graph, result, session.ranks());
    return 0;
  });
}

}  // namespace millrace
