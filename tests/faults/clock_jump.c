// Loaded before a program: its time of day jumps a day ahead after 0.4 s and two days back after 0.8 s. The machine's stays as it is.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long milliseconds(void) {
  static struct timespec begun;
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  if (begun.tv_sec == 0) begun = now;
  return (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000;
}

static long jump(void) {
  const long since = milliseconds();
  return since < 400 ? 0 : since < 800 ? 86400 : -86400;
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const int result = (int)syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += jump();
  return result;
}

time_t time(time_t* at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != 0) *at = now.tv_sec;
  return now.tv_sec;
}
