// Threads and floating-point mode of one device call. Internal to core/cpu.
//
//   const ComputeScope scope(threads);                     // first thing in every call from outside
//   parallel_for(threads, blocks, [&](int64_t block) { ... });
//
// Inside a scope OpenMP (and so oneDNN) uses that many threads, and denormal numbers count as zero on all of them:
// vanishing errors would otherwise double the time of a step. The caller's settings return when the scope ends.
// Indices are divided statically; bodies must not throw, and must not depend on which thread runs them.
#pragma once

#include <omp.h>

#include <cstdint>

namespace millrace::cpu {

class ComputeScope {
 public:
  explicit ComputeScope(int threads);
  ~ComputeScope();
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  unsigned mode_before_;
  int threads_before_;
};

template <typename Body>
void parallel_for(int threads, int64_t count, const Body& body) {
  if (threads == 1 || count == 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < count; ++i) body(i);
}

// body(index, thread), for work that needs scratch memory of its own per thread.
template <typename Body>
void parallel_for_threads(int threads, int64_t count, const Body& body) {
  if (threads == 1 || count == 1) {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < count; ++i) body(i, omp_get_thread_num());
}

// Threads that stay together over many short pieces of work; body(team) runs on each of them.
struct Team {
  int64_t thread = 0;
  int64_t threads = 1;

  // Until all have come here.
  void wait() const {
    if (threads == 1) return;
#pragma omp barrier
  }
};
template <typename Body>
void run_team(int threads, const Body& body) {
  if (threads == 1) return body(Team{});
#pragma omp parallel num_threads(threads)
  body(Team{omp_get_thread_num(), omp_get_num_threads()});
}

// Large arrays in pieces that stay in the first-level cache; body(begin, size).
inline constexpr int64_t kChunk = 4096;
template <typename Body>
void parallel_chunks(int threads, int64_t count, const Body& body) {
  parallel_for(count <= kChunk ? 1 : threads, (count + kChunk - 1) / kChunk, [&](int64_t chunk) {
    const int64_t begin = chunk * kChunk;
    body(begin, count - begin < kChunk ? count - begin : kChunk);
  });
}

}  // namespace millrace::cpu
