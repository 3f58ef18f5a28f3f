// The kernels that are compiled ahead of time, as lists to expand: X(recurrence, backward, format, matrix units, rows,
// columns, group, samples). What is not here is compiled at run time (compile_at_run_time.h).
//
//   #define MILLRACE_ENTRY(recurrence, backward, format, ...) entry<Recurrence::recurrence, backward, format, __VA_ARGS__>(),
//   MILLRACE_SHIPPED_FMA(MILLRACE_ENTRY, kLstm)
//
// 128 weights in a thread's registers for large layers, 32 for middling ones over many threads, 64 for small ones that one
// or a few blocks hold.
#pragma once

#define MILLRACE_SHIPPED_FMA_DIRECTION(X, recurrence, backward) \
  X(recurrence, backward, float, false, 4, 32, 32, 1)           \
  X(recurrence, backward, float, false, 4, 32, 32, 4)           \
  X(recurrence, backward, float, false, 4, 8, 32, 1)            \
  X(recurrence, backward, float, false, 8, 8, 8, 1)             \
  X(recurrence, backward, float, false, 8, 8, 8, 4)

#define MILLRACE_SHIPPED_FMA(X, recurrence)            \
  MILLRACE_SHIPPED_FMA_DIRECTION(X, recurrence, false) \
  MILLRACE_SHIPPED_FMA_DIRECTION(X, recurrence, true)

#define MILLRACE_SHIPPED_MATRIX_FORMAT(X, recurrence, format) \
  X(recurrence, false, format, true, 2, 8, 1, 1)              \
  X(recurrence, false, format, true, 2, 8, 1, 4)              \
  X(recurrence, true, format, true, 1, 16, 1, 1)              \
  X(recurrence, true, format, true, 1, 16, 1, 4)

#define MILLRACE_SHIPPED_MATRIX(X, recurrence)        \
  MILLRACE_SHIPPED_MATRIX_FORMAT(X, recurrence, Half) \
  MILLRACE_SHIPPED_MATRIX_FORMAT(X, recurrence, BFloat16)
