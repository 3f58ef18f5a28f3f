#include "core/cpu/threading.h"

#include <omp.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace millrace::cpu {

namespace {

#if defined(__SSE2__)
constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
unsigned mode() { return _mm_getcsr(); }
void set_mode(unsigned mode) { _mm_setcsr(mode); }
#else
constexpr unsigned kFlushToZero = 0, kDenormalsAreZero = 0;
unsigned mode() { return 0; }
void set_mode(unsigned) {}
#endif

// The workers belong to the calling thread and inherit its mode when they start; those that are there already are told.
thread_local int prepared_threads = 1;

}  // namespace

ComputeScope::ComputeScope(int threads) : mode_before_(mode()), threads_before_(omp_get_max_threads()) {
  set_mode(mode_before_ | kFlushToZero | kDenormalsAreZero);
  if (threads != threads_before_) omp_set_num_threads(threads);
  if (threads == prepared_threads) return;
#pragma omp parallel num_threads(threads)
  set_mode(mode() | kFlushToZero | kDenormalsAreZero);
  prepared_threads = threads;
}

ComputeScope::~ComputeScope() {
  set_mode(mode_before_);
  if (omp_get_max_threads() != threads_before_) omp_set_num_threads(threads_before_);
}

}  // namespace millrace::cpu
