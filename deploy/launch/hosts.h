// The hosts that a training may use, and which of them are there now.
//
//   std::vector<Host> hosts = load_hosts("hosts");                 // "worker-1 slots=4", as mpirun and others read it
//   HostProbe probe(hosts, {"ssh"});                               // asks all of them at once
//   while (!probe.finished()) wait();
//   const std::vector<Host> present = probe.present();             // in the order of the file
//
// A host is there when `AGENT HOST true` ends well within the probe's patience; this machine is, without being asked.
// HostProbe owns the processes it starts and ends them with itself. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct Host {
  std::string name;
  int64_t slots = 1;  // devices it has room for
  bool operator==(const Host&) const = default;
};

// Lines of "NAME [slots=N] [max_slots=N]"; # begins a remark. Fails with kMalformed naming the line, with kNotFound without the file.
std::vector<Host> load_hosts(const std::filesystem::path& path);
std::vector<Host> parse_hosts(std::string_view text, std::string_view origin);
// "n[1-3,07],login" and "2(x3),1", as Slurm writes them into SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE.
std::vector<Host> parse_slurm_hosts(std::string_view nodes, std::string_view tasks);

int64_t slots_of(const std::vector<Host>& hosts);
bool is_this_machine(const std::string& host);

class HostProbe {
 public:
  static constexpr std::chrono::seconds kPatience{10};

  HostProbe(std::vector<Host> hosts, std::vector<std::string> agent, std::chrono::seconds patience = kPatience);
  ~HostProbe();
  HostProbe(const HostProbe&) = delete;
  HostProbe& operator=(const HostProbe&) = delete;

  bool finished();
  std::vector<Host> present() const;
  std::vector<std::string> silent() const;  // names of the others

 private:
  struct Asked {
    Host host;
    pid_t process = -1;  // -1: answered
    bool present = false;
  };
  std::vector<Asked> asked_;
  std::chrono::seconds patience_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace millrace
