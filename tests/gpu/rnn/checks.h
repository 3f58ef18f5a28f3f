// What the tests of gpu/rnn count failures with: plain programs, because they also run on GPU machines that have a compiler
// and nothing else.
//
//   expect(cost == 449, "cost of 128 x 2");
//   int main() { everything(); return report("performance model"); }      // prints the outcome; 1 when anything failed
//
// A program that cannot test anything here ends with skip("no CUDA compiler"), which ctest reports as skipped.
#pragma once

#include <cstdio>
#include <string>

namespace millrace::rnn {

inline int checks_failed = 0;
inline int checks_made = 0;

inline void expect(bool condition, const std::string& what) {
  ++checks_made;
  if (condition) return;
  ++checks_failed;
  std::printf("FAILED: %s\n", what.c_str());
}

inline int report(const char* of) {
  if (checks_failed > 0)
    std::printf("%s: %d of %d checks failed\n", of, checks_failed, checks_made);
  else
    std::printf("%s: all %d checks hold\n", of, checks_made);
  return checks_failed > 0 || checks_made == 0 ? 1 : 0;
}

inline constexpr int kSkipped = 77;

inline int skip(const std::string& why) {
  std::printf("SKIPPED: %s\n", why.c_str());
  return kSkipped;
}

}  // namespace millrace::rnn
