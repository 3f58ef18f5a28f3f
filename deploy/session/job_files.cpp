#include "deploy/session/job_files.h"

#include <filesystem>
#include <string>

#include "deploy/session/job_paths.h"

namespace millrace {
namespace {

// "idx:", or all of a name that is no format with a path.
std::string format_of(const std::string& data) {
  return data.substr(0, data.find(':') == std::string::npos ? data.size() : data.find(':') + 1);
}

bool may_be_a_path(const std::string& data) { return data.find(':') != std::string::npos && !data.starts_with("synthetic:"); }

}  // namespace

bool may_name_files(const Job& job) {
  return looks_like_a_path(job.model) || looks_like_a_path(job.cluster) || !job.plan.empty() || may_be_a_path(job.data);
}

JobFiles::JobFiles(Agreement& agreement, const Job& job) : here_(job) {
  const auto hand_out = [&](std::string_view what, std::string& path) {
    files_.emplace_back(agreement, what, path);
    path = files_.back().path().string();
  };
  if (!job.plan.empty()) hand_out("plan", here_.plan);
  if (looks_like_a_path(job.model)) hand_out("model", here_.model);
  if (looks_like_a_path(job.cluster)) hand_out("cluster", here_.cluster);
  if (!may_be_a_path(job.data)) return;
  const std::string format = format_of(job.data);
  std::string path = job.data.substr(format.size());
  std::error_code none;
  if (!std::filesystem::exists(path, none)) path.clear();  // more than a path, or nothing: who reads it says so
  hand_out("data", path);
  if (!path.empty()) here_.data = format + path;
}

}  // namespace millrace
