// Loaded before a program: what it flushes to a disk takes as long as MILLRACE_TEST_FLUSH_MS says, and so does every tenth writing of a file.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void take_long(void) {
  const char* const text = getenv("MILLRACE_TEST_FLUSH_MS");
  const long milliseconds = text == 0 ? 0 : atol(text);
  struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) continue;
}

static void sometimes(int file) {
  static _Thread_local unsigned writings;
  struct stat facts;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && ++writings % 10 == 0) take_long();
}

int fsync(int file) {
  take_long();
  return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
  take_long();
  return (int)syscall(SYS_fdatasync, file);
}

ssize_t write(int file, const void* bytes, size_t count) {
  sometimes(file);
  return syscall(SYS_write, file, bytes, count);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
  sometimes(file);
  return syscall(SYS_writev, file, parts, count);
}
