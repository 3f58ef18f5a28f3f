// The one sliding window, against walking over its taps.
#include "core/operation/window.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

// Every window that a network of ours could have, on inputs that it fits on.
template <typename Visit>
void for_each_window(Visit visit) {
  for (int64_t kernel = 1; kernel <= 4; ++kernel)
    for (int64_t stride = 1; stride <= 3; ++stride)
      for (int64_t pad = 0; pad < kernel; ++pad)
        for (int64_t dilation = 1; dilation <= 2; ++dilation)
          for (int64_t input = 1; input <= 9; ++input)
            for (const bool rounds_up : {false, true}) {
              const SlidingWindow window{kernel, stride, pad, dilation, rounds_up};
              if (window.fits(input)) visit(window, input);
            }
}

std::vector<int64_t> taps(const SlidingWindow& window, int64_t position) {
  std::vector<int64_t> taps;
  for (int64_t tap = 0; tap < window.kernel; ++tap) taps.push_back(position * window.stride - window.pad + tap * window.dilation);
  return taps;
}

TEST(SlidingWindow, CountsPositionsThatLieOnThePaddedInput) {
  for_each_window([](const SlidingWindow& window, int64_t input) {
    int64_t count = 0;
    while (true) {
      const std::vector<int64_t> read = taps(window, count);
      const bool whole = read.back() < input + window.pad;
      // A last one that hangs over counts where it is asked for, if the one before ended before the padded input did.
      const bool partial = window.rounds_up && read.front() < input && taps(window, count - 1).back() < input + window.pad - 1;
      if (!whole && !partial) break;
      ++count;
    }
    EXPECT_EQ(window.positions(input), count) << window.kernel << "/" << window.stride << "+" << window.pad << "*" << window.dilation
                                              << (window.rounds_up ? " rounded up" : "") << " on " << input;
  });
}

TEST(SlidingWindow, SaysWhatAPositionReads) {
  for_each_window([](const SlidingWindow& window, int64_t input) {
    for (int64_t position = 0; position < window.positions(input); ++position) {
      EXPECT_EQ(window.first_input(position), taps(window, position).front());
      EXPECT_EQ(window.end_input(position), taps(window, position).back() + 1);
    }
  });
}

TEST(SlidingWindow, SaysWhoReadsAnInput) {
  for_each_window([](const SlidingWindow& window, int64_t input) {
    for (int64_t row = 0; row < input; ++row) {
      int64_t first = 0;
      while (window.end_input(first) <= row) ++first;
      EXPECT_EQ(window.first_output(row), first);
      int64_t begun = 0;
      while (window.first_input(begun) <= row) ++begun;
      EXPECT_EQ(window.begun_outputs(row), begun);
    }
  });
}

}  // namespace
}  // namespace millrace
