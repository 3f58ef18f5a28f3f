#include "transport/mpi/mpi_launch.h"

#include <fmt/format.h>

#include <cstdlib>

namespace millrace {

const std::vector<LaunchSetting>& own_settings() {
  static const std::vector<LaunchSetting> settings = {
      {"OMPI_MCA_mpi_yield_when_idle", "1", "ranks that share cores give way while they wait"},
      {"OMPI_MCA_mpi_abort_print_stack", "0", "the log says what was waited for; a stack trace would bury it"},
  };
  return settings;
}

void set_launch_environment() {
  for (const LaunchSetting& setting : own_settings()) setenv(setting.name.c_str(), setting.value.c_str(), /*overwrite=*/0);
}

std::vector<LaunchSetting> launch_arguments(int64_t ranks, int64_t cores, bool several_hosts) {
  std::vector<LaunchSetting> arguments;
  if (ranks > cores) {
    arguments.push_back({"--oversubscribe", "", "more ranks than cores"});
    arguments.push_back({"--bind-to", "none", "the operating system places ranks that share cores"});
  }
  arguments.push_back({"--mca odls_base_num_threads", "0", "mpirun may hang when ranks exit at once"});
  if (several_hosts) {
    // A host that is cut off is noticed within about five seconds instead of minutes. Our deadlines should be longer: TCP probes silent
    // connections alone, so what mpirun sends to a lost host before it knows, to end the job, keeps it waiting for minutes again.
    arguments.push_back({"--mca oob_tcp_keepalive_time", "2", "a host that was cut off is noticed"});
    arguments.push_back({"--mca oob_tcp_keepalive_intvl", "1", "a host that was cut off is noticed"});
    arguments.push_back({"--mca oob_tcp_keepalive_probes", "3", "a host that was cut off is noticed"});
  }
  return arguments;
}

std::vector<LaunchSetting> launch_environment(bool root) {
  if (!root) return {};
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1", "mpirun refuses to run as root without"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", "mpirun refuses to run as root without"}};
}

std::string launch_command(int64_t ranks, int64_t cores, bool several_hosts, bool root) {
  std::string command;
  for (const LaunchSetting& variable : launch_environment(root)) command += fmt::format("{}={} ", variable.name, variable.value);
  command += fmt::format("mpirun -n {}", ranks);
  for (const LaunchSetting& argument : launch_arguments(ranks, cores, several_hosts))
    command += fmt::format(" {}{}{}", argument.name, argument.value.empty() ? "" : " ", argument.value);
  return command;
}

}  // namespace millrace
