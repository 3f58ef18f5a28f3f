#include "deploy/session/job_paths.h"

#include <string>

namespace millrace {
namespace {

namespace fs = std::filesystem;

void seek(std::string& path, const fs::path& folder) {
  if (path.empty() || fs::path(path).is_absolute()) return;
  const fs::path beside = folder / path;
  if (fs::exists(beside) || (looks_like_a_path(path) && !fs::exists(path))) path = beside.string();
}

void seek_beside(Job& job, const fs::path& folder) {
  if (folder.empty()) return;
  for (std::string* path : {&job.model, &job.cluster})
    if (looks_like_a_path(*path)) seek(*path, folder);
  seek(job.plan, folder);
  seek(job.init_from, folder);
  // Of "format:PATH" only what is there: the rest of the name may also be numbers.
  const size_t colon = job.data.find(':');
  if (colon == std::string::npos) return;
  const fs::path path = job.data.substr(colon + 1);
  if (!path.empty() && path.is_relative() && fs::exists(folder / path)) job.data = job.data.substr(0, colon + 1) + (folder / path).string();
}

}  // namespace

bool looks_like_a_path(const std::string& text) { return text.find('/') != std::string::npos || text.ends_with(".textproto"); }

Job load_job_with_files(const fs::path& path) {
  Job job = load_job(path);
  seek_beside(job, path.parent_path());
  return job;
}

}  // namespace millrace
