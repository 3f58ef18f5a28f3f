#include "deploy/command/line/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/base/exit_status.h"

namespace millrace {

void occupy_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      // The lowest free number is this one. Reading is refused where writing is meant, and the other way about.
      const int taken = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
      if (taken != stream && taken >= 0) ::close(taken);
    }
}

bool output_was_lost() { return std::ferror(stdout) != 0; }

int status_with_output(int status, OutputLoss loss) {
  const bool lost_before = output_was_lost();
  errno = 0;
  bool lost = std::fflush(stdout) != 0;
  // Network file systems tell of a full disk when a file is closed.
  if (const int copy = ::dup(STDOUT_FILENO); copy >= 0 && ::close(copy) != 0) lost = true;
  const int reason = loss.reason != 0 ? loss.reason : errno;
  if (!lost && !lost_before) return status;
  if (!loss.said)
    std::fprintf(stderr, "millrace: standard output could not be written%s%s; what arrived of it is not complete\n",
                 reason == 0 ? "" : ": ", reason == 0 ? "" : std::strerror(reason));
  return kExitFailed;
}

}  // namespace millrace
