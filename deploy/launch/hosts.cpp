#include "deploy/launch/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "deploy/launch/child.h"

namespace millrace {
namespace {

constexpr int64_t kMostSlots = 1 << 20;

int64_t number_of(std::string_view text, std::string_view whole, std::string_view origin) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > kMostSlots)
    fail(ErrorCode::kMalformed, "{}: \"{}\" in \"{}\" is not a number from 0 to {}", origin, text, whole, kMostSlots);
  return value;
}

// A name that an agent's command line takes as one.
void require_name(const std::string& name, std::string_view origin) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':'; };
  if (name.empty() || name.front() == '-' || !std::ranges::all_of(name, fits))
    fail(ErrorCode::kMalformed, "{}: \"{}\" is not a host's name; it has letters, digits, dots, colons, - and _", origin, name);
}

// "n[1-3,07]" -> n1 n2 n3 n07
void expand(std::string_view item, std::vector<std::string>& names) {
  const size_t open = item.find('['), close = item.find(']');
  if (open == std::string_view::npos) {
    names.emplace_back(item);
    return;
  }
  constexpr std::string_view kOrigin = "SLURM_JOB_NODELIST";
  if (close == std::string_view::npos || close < open) fail(ErrorCode::kMalformed, "{}: \"{}\" has no end of its bracket", kOrigin, item);
  const std::string before(item.substr(0, open)), after(item.substr(close + 1));
  std::istringstream ranges{std::string(item.substr(open + 1, close - open - 1))};
  for (std::string range; std::getline(ranges, range, ',');) {
    const size_t dash = range.find('-');
    const std::string first = range.substr(0, dash), last = dash == std::string::npos ? first : range.substr(dash + 1);
    const int64_t end = number_of(last, item, kOrigin);
    for (int64_t number = number_of(first, item, kOrigin); number <= end; ++number)
      expand(fmt::format("{}{:0{}}{}", before, number, first.size(), after), names);
  }
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text, std::string_view origin) {
  std::vector<Host> hosts;
  std::istringstream lines{std::string(text)};
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = fmt::format("{}: line {}", origin, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    if (!(words >> host.name)) continue;
    require_name(host.name, place);
    for (std::string word; words >> word;) {
      if (word.starts_with("slots="))
        host.slots = number_of(std::string_view(word).substr(6), word, place);
      else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots="))
        fail(ErrorCode::kMalformed, "{}: \"{}\" is not understood; write NAME slots=NUMBER", place, word);
    }
    if (std::ranges::find(hosts, host.name, &Host::name) != hosts.end())
      fail(ErrorCode::kMalformed, "{}: host \"{}\" is listed twice; give it all its slots in one line", place, host.name);
    if (host.slots > 0) hosts.push_back(host);
  }
  return hosts;
}

std::vector<Host> load_hosts(const std::filesystem::path& path) { return parse_hosts(read_text(path), path.string()); }

std::vector<Host> parse_slurm_hosts(std::string_view nodes, std::string_view tasks) {
  std::vector<std::string> names;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= nodes.size(); ++i) {
    if (i < nodes.size() && nodes[i] == '[') ++depth;
    if (i < nodes.size() && nodes[i] == ']') --depth;
    if (i < nodes.size() && (nodes[i] != ',' || depth > 0)) continue;
    if (i > begin) expand(nodes.substr(begin, i - begin), names);
    begin = i + 1;
  }
  std::vector<int64_t> slots;
  std::istringstream counts{std::string(tasks)};
  for (std::string count; std::getline(counts, count, ',');) {
    const size_t times = count.find("(x");
    const int64_t each = number_of(count.substr(0, times), count, "SLURM_TASKS_PER_NODE");
    const int64_t repeat =
        times == std::string::npos ? 1 : number_of(count.substr(times + 2, count.size() - times - 3), count, "SLURM_TASKS_PER_NODE");
    slots.insert(slots.end(), to_size(repeat), each);
  }
  if (names.empty() || slots.size() != names.size())
    fail(ErrorCode::kMalformed, "Slurm names the nodes \"{}\" and \"{}\" tasks for them, which do not fit each other", nodes, tasks);
  std::vector<Host> hosts;
  for (size_t i = 0; i < names.size(); ++i) {
    require_name(names[i], "SLURM_JOB_NODELIST");
    hosts.push_back({names[i], slots[i]});
  }
  return hosts;
}

int64_t slots_of(const std::vector<Host>& hosts) {
  int64_t slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return slots;
}

bool is_this_machine(const std::string& host) {
  std::array<char, 256> own{};
  if (gethostname(own.data(), own.size() - 1) == 0) {
    const std::string name(own.data());
    if (host == name || host == name.substr(0, name.find('.'))) return true;
  }
  if (host == "localhost") return true;
  ifaddrs* addresses = nullptr;
  if (getifaddrs(&addresses) != 0) return false;
  bool found = false;
  for (const ifaddrs* one = addresses; one != nullptr && !found; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (one->ifa_addr->sa_family == AF_INET)
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text.data(), text.size());
    else if (one->ifa_addr->sa_family == AF_INET6)
      inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr, text.data(), text.size());
    found = host == text.data();
  }
  freeifaddrs(addresses);
  return found;
}

HostProbe::HostProbe(std::vector<Host> hosts, std::vector<std::string> agent, std::chrono::seconds patience) : patience_(patience) {
  for (Host& host : hosts) {
    Asked asked{.host = std::move(host)};
    asked.present = is_this_machine(asked.host.name);
    if (!asked.present) {
      std::vector<std::string> words = agent;
      words.insert(words.end(), {asked.host.name, "true"});
      asked.process = start_process(words, {.quiet = true});
    }
    asked_.push_back(std::move(asked));
  }
}

HostProbe::~HostProbe() {
  for (const Asked& asked : asked_) {
    if (asked.process < 0) continue;
    kill(-asked.process, SIGKILL);
    waitpid(asked.process, nullptr, 0);
  }
}

bool HostProbe::finished() {
  const bool late = std::chrono::steady_clock::now() - started_ > patience_;
  bool all = true;
  for (Asked& asked : asked_) {
    if (asked.process < 0) continue;
    int status = 0;
    if (late) kill(-asked.process, SIGKILL);
    if (waitpid(asked.process, &status, late ? 0 : WNOHANG) == 0) {
      all = false;
      continue;
    }
    asked.present = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    asked.process = -1;
  }
  return all;
}

std::vector<Host> HostProbe::present() const {
  std::vector<Host> hosts;
  for (const Asked& asked : asked_)
    if (asked.present) hosts.push_back(asked.host);
  return hosts;
}

std::vector<std::string> HostProbe::silent() const {
  std::vector<std::string> names;
  for (const Asked& asked : asked_)
    if (!asked.present) names.push_back(asked.host.name);
  return names;
}

}  // namespace millrace
