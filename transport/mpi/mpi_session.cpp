#include "transport/mpi/mpi_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string_view>
#include <thread>

#include "core/base/check.h"
#include "core/base/exit_status.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "transport/mpi/mpi_handles.h"
#include "transport/mpi/mpi_launch.h"
#include "transport/mpi/watchdog.h"

namespace millrace {

void check_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  fail(ErrorCode::kIo, "{}: {} (MPI error {})", what, std::string_view(text.data(), to_size(length)), code);
}

MpiGroup::State::State(MPI_Comm taken, Nanoseconds patience) : communicator(taken), deadline(patience) {
  check_mpi(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "setting up a communicator");
  check_mpi(MPI_Comm_rank(communicator, &rank), "asking for the rank");
  check_mpi(MPI_Comm_size(communicator, &ranks), "asking for the number of ranks");
}

MpiGroup::State::~State() {
  int finalized = 0;
  if (MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) MPI_Comm_free(&communicator);
}

int64_t MpiGroup::rank() const { return state_->rank; }
int64_t MpiGroup::ranks() const { return state_->ranks; }

MpiGroup MpiGroup::copy() const {
  const Watchdog watchdog("copying a group of ranks", state_->deadline);
  MPI_Comm communicator = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(state_->communicator, &communicator), "copying a group of ranks");
  return MpiGroup(std::make_shared<State>(communicator, state_->deadline));
}

MpiSession::MpiSession(const MpiSettings& settings) : settings_(settings) {
  set_launch_environment();
  const Watchdog watchdog("joining the MPI job", settings_.deadline);
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "joining the MPI job");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "joining the MPI job");
  if (provided < MPI_THREAD_FUNNELED)
    fail(ErrorCode::kUnavailable,
         "this MPI allows no threads beside the one that calls it (level {}); use one built with MPI_THREAD_FUNNELED", provided);
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "joining the MPI job");
  world_ = std::make_shared<MpiGroup::State>(copy, settings_.deadline);
  log::set_prefix(world_->ranks > 1 ? fmt::format("rank {}", world_->rank) : "");
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() > 0) abort(1);
  world_.reset();
  const Watchdog watchdog("leaving the MPI job", settings_.deadline);
  MPI_Finalize();
}

bool MpiSession::launched() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(variable) != nullptr) return true;
  return false;
}

void MpiSession::wait_for_first_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    const char* const rank = std::getenv(variable);
    if (rank == nullptr) continue;
    if (std::string_view(rank) != "0") std::this_thread::sleep_for(std::chrono::seconds(5));
    return;
  }
}

int64_t MpiSession::rank() const { return world_->rank; }
int64_t MpiSession::ranks() const { return world_->ranks; }

MpiGroup MpiSession::world() const { return MpiGroup(world_); }

MpiGroup MpiSession::split(int64_t colour, int64_t key) const {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  MILLRACE_CHECK(colour >= 0 && colour <= kMost && key >= 0 && key <= kMost, "colour {}, key {}", colour, key);
  const Watchdog watchdog("splitting the ranks into groups", settings_.deadline);
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(world_->communicator, static_cast<int>(colour), static_cast<int>(key), &part),
            "splitting the ranks into groups");
  return MpiGroup(std::make_shared<MpiGroup::State>(part, settings_.deadline));
}

std::string MpiSession::host() const {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "asking for the host's name");
  return {name.data(), to_size(length)};
}

void MpiSession::abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  _exit(status);  // MPI_Abort may return; nothing here can go on
}

int run_with_mpi(const MpiSettings& settings, const std::function<int(MpiSession&)>& body) {
  MpiSession session(settings);
  try {
    const int status = body(session);
    if (status != kExitDone && status != kExitInterrupted) session.abort(status);
    return status;
  } catch (const Error& error) {
    log::error("{}", error.what());
    session.abort(exit_status_of(error.code()));
  } catch (const std::exception& exception) {
    log::error("{}", exception.what());
    session.abort(1);
  }
}

}  // namespace millrace
