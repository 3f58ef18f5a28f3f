#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/files.h"
#include "core/base/log.h"
#include "deploy/command/study/study_flags.h"
#include "deploy/session/simulate_ranks.h"
#include "partitioner/study/parallel.h"
#include "transport/mpi/mpi_session.h"
#include "transport/mpi/mpi_wire.h"
#include "transport/streams/agreement.h"

namespace millrace {
namespace {

// A rank may simulate for hours while others wait for it; one that dies is noticed by mpirun.
constexpr TransportSettings kVeryPatient{.deadline = std::chrono::hours(48)};

}  // namespace

bool StudyFlags::has(std::string_view name) const { return std::find(given.begin(), given.end(), name) != given.end(); }

int with_study_team(const std::function<int(const StudyTeam&)>& run) {
  if (!under_mpirun()) return run({});
  return run_with_mpi({}, [&](MpiSession& session) {
    Transport transport(make_ring_wire(session.world()), kVeryPatient);
    Agreement agreement(transport);
    StudyTeam team{.rank = session.rank(), .ranks = session.ranks(), .exchange = {}};
    team.exchange = [&](const std::string& mine) {
      const std::vector<std::string> all = agreement.gather("finished points", mine);
      return nlohmann::json::parse(agreement.broadcast("finished points", session.rank() == 0 ? nlohmann::json(all).dump() : ""))
          .get<std::vector<std::string>>();
    };
    const int status = run(team);
    agreement.close();
    return status;
  });
}

int study_threads(const StudyFlags& flags, const StudyTeam& team) {
  if (flags.threads > 0) return flags.threads;
  return std::max(1, default_threads() / static_cast<int>(std::min<int64_t>(team.ranks, 8)));
}

void write_study(const std::string& folder, const std::vector<std::pair<const char*, std::string>>& files) {
  for (const auto& [name, content] : files) write_atomically(std::filesystem::path(folder) / name, content);
  log::info("written to {}", folder);
}

std::unique_ptr<StudyJournal> open_study_journal(const StudyFlags& flags, const StudyTeam& team, const StudyQuestion& question) {
  if (flags.out.empty()) return nullptr;
  std::unique_ptr<StudyJournal> journal;
  if (team.rank == 0) journal = std::make_unique<StudyJournal>(flags.out, question, team.rank);
  if (team.ranks > 1) static_cast<void>(team.exchange("{}"));  // the folder is there
  if (team.rank > 0) {
    make_folders(flags.out);  // on a disk of its own host
    journal = std::make_unique<StudyJournal>(flags.out, question, team.rank);
  }
  return journal;
}

void tell_what_is_found(const StudyFlags& flags, const StudyTeam& team, const StudyWork& work, std::string_view pieces) {
  if (team.rank == 0 && work.found() > 0) log::info("{} has {} {} already: going on from there", flags.out, work.found(), pieces);
}

std::string digest_of_constants(const CostModel& model) {
  std::string text = model.device();
  for (const Constant& constant : model.constants()) text += fmt::format(";{}={:.17g}", constant.name, constant.value);
  for (const NamedAmount& amount : model.capacities()) text += fmt::format(";{}={:.17g}", amount.name, amount.amount);
  return digest_of(text);
}

SimulatedFigures simulated_figures(const SimulationResult& result) {
  SimulatedFigures figures{
      .images_per_second = result.images_per_second, .idle_fraction = result.idle_fraction, .in_flight_samples = result.in_flight_samples};
  for (const SimulatedLink& link : result.links)
    figures.max_link_gbps = std::max(figures.max_link_gbps,
                                     1e-9 * result.images_per_second * std::max(link.forward_bits_per_image, link.backward_bits_per_image));
  return figures;
}

}  // namespace millrace
