// Where the files lie that a job file names.
//
//   const Job job = load_job_with_files("sub/job.textproto");      // model: "lenet-plus.textproto" becomes "sub/lenet-plus.textproto"
//
// A relative path of a model, cluster, plan, weights or data set is sought beside the job first, then in the current folder. Where a run
// is written (out) belongs to whoever starts it, so it is of the current folder. Names that are no paths stay as they are.
#pragma once

#include <filesystem>

#include "core/documents/job.h"

namespace millrace {

Job load_job_with_files(const std::filesystem::path& path);

// As who reads models and clusters tells files from names.
bool looks_like_a_path(const std::string& text);

}  // namespace millrace
