// One writer for a folder: held while a run writes into it, and named to whoever comes second.
//
//   const FolderLock lock(job.out, "training");       // makes the folder; fails with kUnavailable naming the holder
//
//   runs/a: training is under way there, by process 4711 on host n3 since 2026-03-01 12:00:05 UTC; wait for its end, ...
//
// The lock is flock(2) on the file FOLDER/lock, which holds the holder's name and is removed at the end. The operating system
// gives it back when the holder ends, however it ends: what a killed run leaves behind is taken over, and that is said.
// Between hosts it is as good as the locks of the file system. NFS 4, and NFS 3 with its lock service, hold them for all hosts,
// and give those of a host that is cut off back after the server's lease (90 s, as a rule). Mounted with nolock or local_lock
// they hold for one host or one mount only: a lock whose file names another host is then taken over, with a warning that says so; one whose
// file names a process of this machine that lives is not, through whatever mount it was taken.
// Where there are no locks at all, the file alone tells: a holder on this machine is looked up among its processes, one
// elsewhere is believed until somebody removes the file; two that start in the same instant may both be let in.
// A process may leave the lock to those it starts: they keep its descriptor(), and whoever comes next finds the folder taken until the
// last of them has ended, and holder_has_ended() true once only they are left.
// Readers need no lock: what is there is always whole (files.h, core/train/checkpoint.h).
#pragma once

#include <filesystem>
#include <string_view>

namespace millrace {

inline constexpr const char* kLockName = "lock";

class FolderLock {
 public:
  // kFileAlone: as where there are no locks; for tests.
  enum class Means { kSystem, kFileAlone };

  // `doing` names what the folder is needed for, in one word or a few; `name` is the file's, for locks beside each other.
  FolderLock(const std::filesystem::path& folder, std::string_view doing, Means means = Means::kSystem, const char* name = kLockName);
  // A folder that it made, and nobody put anything into, goes with it.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Closed where another program is started, unless that is told to keep it.
  int descriptor() const { return descriptor_; }

 private:
  void take(std::string_view doing);
  bool lock_file();
  void give_way_to_holder() const;

  std::filesystem::path folder_;
  std::filesystem::path file_;
  std::filesystem::path made_;  // the topmost folder that was not there; empty: all were
  Means means_;
  int descriptor_ = -1;
};

// True when the one that the lock's file names was on this machine and is gone: what still holds the lock then, that one has started.
bool holder_has_ended(const std::filesystem::path& folder, const char* name = kLockName);

}  // namespace millrace
