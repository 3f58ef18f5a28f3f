// How long stages from measured profiles take to plan: every fixture, 4, 8 and 16 devices, three objectives, two bandwidths.
//
//   build/release/bin/profile_planning                     # fails when one takes longer than 0.1 s
//   build/release/bin/profile_planning --most-seconds 1 --profiles graph.txt chain.csv
//
// A time is the fastest of `--repeats` whole plannings, by processor time, which other programs do not lengthen: finding the
// cuts, the search, its tie-breaks. Reading the file is apart, and said.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "partitioner/profile/stage_partition.h"

namespace millrace {
namespace {

double now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <typename Work>
double fastest_of(int repeats, Work work) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const double begin = now();
    work();
    fastest = std::min(fastest, now() - begin);
  }
  return fastest;
}

std::vector<std::string> fixtures() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(MILLRACE_PROFILE_FIXTURES))
    if (entry.path().extension() == ".csv" || entry.path().string().ends_with(".graph.txt")) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

int run(int argc, char** argv) {
  CLI::App app{"Seconds to plan stages from measured profiles"};
  std::vector<std::string> paths = fixtures();
  std::vector<int64_t> devices{4, 8, 16};
  int repeats = 5;
  double most_seconds = 0.1;
  bool replicate = false;
  app.add_option("--profiles", paths, "CSV or PipeDream graphs [the fixtures of the tests]");
  app.add_option("--devices", devices, "how many, several allowed")->delimiter(',');
  app.add_option("--repeats", repeats, "of which the fastest counts");
  app.add_option("--most-seconds", most_seconds, "more is a failure");
  app.add_flag("--replicate", replicate, "data-parallel stages");
  CLI11_PARSE(app, argc, argv);

  fmt::print("{:<26}{:>6}{:>8}  {:<12}{:>11}{:>13}{:>13}\n", "profile", "nodes", "cuts", "kind", "reading", "median plan", "slowest plan");
  double slowest_of_all = 0;
  for (const std::string& path : paths) {
    const double reading = fastest_of(repeats, [&] { load_profile(path); });
    const Profile profile = load_profile(path);
    std::vector<double> seconds;
    StagePartition plan;
    for (const int64_t count : devices)
      for (const auto objective : {StageObjective::kCompute, StageObjective::kMax, StageObjective::kSum})
        for (const double gbps : {10.0, 100.0}) {
          const StageTask task{.devices = count, .objective = objective, .link_gbps = {gbps}, .replicate = replicate};
          seconds.push_back(fastest_of(repeats, [&] { plan = partition_stages(profile, task); }));
        }
    std::sort(seconds.begin(), seconds.end());
    slowest_of_all = std::max(slowest_of_all, seconds.back());
    static constexpr const char* kKinds[] = {"chain", "antichains", "linearised"};
    fmt::print("{:<26}{:>6}{:>8}  {:<12}{:>8.3f} ms{:>10.3f} ms{:>10.3f} ms\n", std::filesystem::path(path).filename().string(),
               profile.size(), plan.cuts_searched, kKinds[static_cast<size_t>(plan.cuts)], 1e3 * reading, 1e3 * seconds[seconds.size() / 2],
               1e3 * seconds.back());
  }
  fmt::print("slowest of all: {:.1f} ms of processor time (measured), at most {:.1f} ms asked for\n", 1e3 * slowest_of_all,
             1e3 * most_seconds);
  return slowest_of_all <= most_seconds ? 0 : 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  try {
    return millrace::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
