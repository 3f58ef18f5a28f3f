// A file or folder of rank 0 for all ranks, wherever they run: hosts need no file system in common.
//
//   const HandedOut weights(agreement, "the weights", "runs/a/checkpoints/step-00000040");      // all ranks; the path counts on rank 0
//   content = read_checkpoint(weights.path());
//
// A rank that sees the same under the same name (names, sizes, and what files of up to a megabyte hold) reads it there. Where one does
// not, rank 0 sends it: that rank's path() is then a copy in a private folder of its own below the system's folder for temporary files,
// which goes with this object, or, where its process was killed, when the next one makes a copy there. An empty path is handed out as an
// empty path.
// Fails on all ranks with what the first met. Limits: at most 8 GiB are sent, as much as Agreement carries; links are followed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "transport/streams/agreement.h"

namespace millrace {

class HandedOut {
 public:
  HandedOut() = default;
  HandedOut(Agreement& agreement, std::string_view what, const std::filesystem::path& path);
  ~HandedOut();
  HandedOut(HandedOut&& other) noexcept { *this = std::move(other); }
  HandedOut& operator=(HandedOut&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  bool is_copy() const { return !copy_.empty(); }

 private:
  std::filesystem::path path_;
  std::filesystem::path copy_;  // the private folder; empty: there is none
  int lock_ = -1;               // on a file in it: somebody needs it
};

}  // namespace millrace
