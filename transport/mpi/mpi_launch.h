// How to start ranks so that they run well, end when one fails, and leave nothing behind.
//
//   fmt::print("{} millrace train ...\n", launch_command(/*ranks=*/16, /*cores=*/2, /*several_hosts=*/false, /*root=*/false));
//   // mpirun -n 16 --oversubscribe --bind-to none --mca odls_base_num_threads 0 millrace train ...
//
// Open MPI takes settings from three places: what a program may set before MPI_Init (set_launch_environment does), what
// mpirun must see in its own environment, and what must stand on its command line.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

struct LaunchSetting {
  std::string name;
  std::string value;
  std::string reason;
};

// Environment variables that a rank sets for itself, where the user has not: OMPI_MCA_...
const std::vector<LaunchSetting>& own_settings();
void set_launch_environment();

// Arguments for mpirun with their reasons; `name` is the option, `value` what follows it ("" for none).
std::vector<LaunchSetting> launch_arguments(int64_t ranks, int64_t cores, bool several_hosts);
// Environment variables for mpirun itself: as root it refuses to start without.
std::vector<LaunchSetting> launch_environment(bool root);

// The whole command line before the program's own.
std::string launch_command(int64_t ranks, int64_t cores, bool several_hosts, bool root);

}  // namespace millrace
