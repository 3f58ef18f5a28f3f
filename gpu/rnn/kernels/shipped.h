// The kernels that are compiled ahead of time, as lists to expand: X(recurrence, backward, format, matrix units, rows,
// columns, group, samples) or, for clusters, one number more: their blocks. What is not here is compiled at run time
// (compile_at_run_time.h).
//
//   #define MILLRACE_ENTRY(recurrence, backward, format, ...) entry<Recurrence::recurrence, backward, format, __VA_ARGS__>(),
//   MILLRACE_SHIPPED_FMA(MILLRACE_ENTRY, kLstm)
//
// 128 weights in a thread's registers for large layers, 64 for small ones that one or a few blocks hold.
#pragma once

#define MILLRACE_SHIPPED_FMA_DIRECTION(X, recurrence, backward) \
  X(recurrence, backward, float, false, 4, 32, 32, 1)           \
  X(recurrence, backward, float, false, 4, 32, 32, 4)           \
  X(recurrence, backward, float, false, 8, 8, 8, 1)

#define MILLRACE_SHIPPED_FMA(X, recurrence)            \
  MILLRACE_SHIPPED_FMA_DIRECTION(X, recurrence, false) \
  MILLRACE_SHIPPED_FMA_DIRECTION(X, recurrence, true)

// Two phases hold one and a half times the weights of one: fewer in registers, the rest in shared memory.
#define MILLRACE_SHIPPED_TWO_PHASES_DIRECTION(X, recurrence, backward) \
  X(recurrence, backward, float, false, 4, 16, 32, 1)                  \
  X(recurrence, backward, float, false, 4, 16, 32, 4)                  \
  X(recurrence, backward, float, false, 8, 8, 8, 1)

#define MILLRACE_SHIPPED_TWO_PHASES(X, recurrence)            \
  MILLRACE_SHIPPED_TWO_PHASES_DIRECTION(X, recurrence, false) \
  MILLRACE_SHIPPED_TWO_PHASES_DIRECTION(X, recurrence, true)

// 96 weights: what compilers keep in registers without spilling where one row is one unit.
#define MILLRACE_SHIPPED_VANILLA(X)           \
  X(kTanh, false, float, false, 4, 24, 32, 1) \
  X(kTanh, false, float, false, 4, 24, 32, 4) \
  X(kTanh, false, float, false, 8, 8, 8, 1)   \
  X(kTanh, true, float, false, 4, 24, 32, 1)  \
  X(kTanh, true, float, false, 4, 24, 32, 4)  \
  X(kTanh, true, float, false, 8, 8, 8, 1)    \
  X(kRelu, false, float, false, 4, 24, 32, 1) \
  X(kRelu, true, float, false, 4, 24, 32, 1)

#define MILLRACE_SHIPPED_MATRIX_FORMAT(X, recurrence, format) \
  X(recurrence, false, format, true, 2, 8, 1, 1)              \
  X(recurrence, false, format, true, 2, 8, 1, 2)              \
  X(recurrence, true, format, true, 1, 16, 1, 1)

#define MILLRACE_SHIPPED_MATRIX(X, recurrence)        \
  MILLRACE_SHIPPED_MATRIX_FORMAT(X, recurrence, Half) \
  MILLRACE_SHIPPED_MATRIX_FORMAT(X, recurrence, BFloat16)

// Two phases and single gates: one tile each way, of few samples.
#define MILLRACE_SHIPPED_MATRIX_TWO_PHASES_FORMAT(X, recurrence, format) \
  X(recurrence, false, format, true, 2, 8, 1, 1)                         \
  X(recurrence, true, format, true, 1, 16, 1, 1)

#define MILLRACE_SHIPPED_MATRIX_TWO_PHASES(X, recurrence)        \
  MILLRACE_SHIPPED_MATRIX_TWO_PHASES_FORMAT(X, recurrence, Half) \
  MILLRACE_SHIPPED_MATRIX_TWO_PHASES_FORMAT(X, recurrence, BFloat16)

#define MILLRACE_SHIPPED_MATRIX_VANILLA_FORMAT(X, format) \
  X(kTanh, false, format, true, 2, 8, 1, 1)               \
  X(kTanh, true, format, true, 2, 8, 1, 1)                \
  X(kRelu, false, format, true, 2, 8, 1, 1)               \
  X(kRelu, true, format, true, 2, 8, 1, 1)

#define MILLRACE_SHIPPED_MATRIX_VANILLA(X)        \
  MILLRACE_SHIPPED_MATRIX_VANILLA_FORMAT(X, Half) \
  MILLRACE_SHIPPED_MATRIX_VANILLA_FORMAT(X, BFloat16)

// For clusters of eight blocks: rows of all their units, an eighth of the columns. Not for GPUs before compute capability 9.0.
#define MILLRACE_SHIPPED_CLUSTERS(X, recurrence)     \
  X(recurrence, false, float, false, 4, 32, 4, 1, 8) \
  X(recurrence, true, float, false, 4, 32, 16, 1, 8)

#define MILLRACE_SHIPPED_MATRIX_CLUSTERS(X, recurrence) \
  X(recurrence, false, Half, true, 2, 8, 1, 1, 8)       \
  X(recurrence, true, Half, true, 1, 16, 1, 1, 8)       \
  X(recurrence, false, BFloat16, true, 2, 8, 1, 1, 8)   \
  X(recurrence, true, BFloat16, true, 1, 16, 1, 1, 8)
