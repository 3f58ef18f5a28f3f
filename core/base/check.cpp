#include "core/base/check.h"

#include <cstdio>
#include <cstdlib>

#include "core/base/terminal.h"

namespace millrace {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  leave_status();
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\nThis is a mistake in Millrace, not in your input; please report it.\n", file, line,
               condition, message.c_str());
  std::abort();
}

}  // namespace millrace
