// Element work on sequences: into the time of a recurrence and back, states at its ends, rows of an embedding.
//
//   IntoOwnTime{.time = {.valid = valid, .samples = 4, .steps = 50, .reversed = true}, .from = x, .to = in_time, ...}
//
// A direction's own time runs forwards for each sample from where it begins: for the second direction that is the sample's own last
// step. So both directions are the same recurrence, and what lies behind a sample's end comes after all that counts, as zeros.
// Part of element_work.h, by the same rules.
#pragma once

#include <cstdint>

#include "core/base/host_device.h"
#include "gpu/device/stored.h"

namespace millrace::gpu {

// The steps [begin, begin + count) of each plane of a sequence of `steps`, where elements are worked on one by one.
struct PartOfTime {
  int64_t steps = 1, begin = 0, count = 1;

  MILLRACE_HOST_DEVICE int64_t index(int64_t i) const { return count == steps ? i : i / count * steps + begin + i % count; }
  int64_t of(int64_t elements) const { return elements / steps * count; }
};

struct OwnTime {
  const int32_t* valid = nullptr;  // steps by sample; null: all
  int64_t samples = 1, steps = 1;
  bool reversed = false;

  MILLRACE_HOST_DEVICE int64_t steps_of(int64_t sample) const { return valid == nullptr ? steps : valid[sample]; }
  // From the sequence's time to the direction's, and the other way.
  MILLRACE_HOST_DEVICE int64_t other(int64_t sample, int64_t step) const { return reversed ? steps_of(sample) - 1 - step : step; }
};

// to[step][sample][width], own steps from `begin` on = from[sample][first ...][step], zeros behind a sample's end.
struct IntoOwnTime {
  OwnTime time = {};
  const float* from = nullptr;
  StoredFloats to = {};
  int64_t channels = 1, first = 0;  // of `from`
  int64_t width = 1, begin = 0;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t channel = i % width, sample = i / width % time.samples, step = begin + i / width / time.samples;
    const bool counts = step < time.steps_of(sample);
    to.put((step * time.samples + sample) * width + channel,
           counts ? from[(sample * channels + first + channel) * time.steps + time.other(sample, step)] : 0.0f);
  }
};

// The way back: to[sample][first ...][step] (+)= from[step][sample][width], steps [begin, end) of the sequence.
struct OutOfOwnTime {
  OwnTime time = {};
  ConstFloats from = {};
  float* to = nullptr;
  int64_t channels = 1, first = 0;  // of `to`
  int64_t width = 1, begin = 0, end = 0;
  bool adds = false;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t count = end - begin;
    const int64_t step = begin + i % count, channel = i / count % width, sample = i / count / width;
    const bool counts = step < time.steps_of(sample);
    const float value = counts ? from.at((time.other(sample, step) * time.samples + sample) * width + channel) : 0.0f;
    float& target = to[(sample * channels + first + channel) * time.steps + step];
    target = adds ? target + value : value;
  }
};

// rows[step][sample][width] = 0 behind a sample's end: a state that runs on may leave the finite numbers.
struct ClearEnded {
  OwnTime time = {};
  StoredFloats rows = {};
  int64_t width = 1, begin = 0;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = begin * time.samples + i / width;
    if (row / time.samples >= time.steps_of(row % time.samples)) rows.put(row * width + i % width, 0.0f);
  }
};

// to[sample][width] = what was carried over, or zeros.
struct StartStates {
  const float* carried = nullptr;  // null: nothing was
  const int32_t* fresh = nullptr;  // by sample: 1 starts from zero; null: none does
  StoredFloats to = {};
  int64_t width = 1;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const bool starts = carried == nullptr || (fresh != nullptr && fresh[i / width] != 0);
    to.put(i, starts ? 0.0f : carried[i]);
  }
};

// to[sample][width] = each sample's state behind its last step; states[0] is the one before the first step.
struct EndStates {
  OwnTime time = {};
  ConstFloats states = {};  // [step + 1][sample][width]
  float* to = nullptr;
  int64_t width = 1;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t sample = i / width;
    to[i] = states.at((time.steps_of(sample) * time.samples + sample) * width + i % width);
  }
};

// output[sample][channel][step] = the row of the step's token, steps [begin, end); zeros behind a sample's end.
struct LookUp {
  const float* rows = nullptr;    // [token][channel]
  const float* tokens = nullptr;  // [sample][step], whole numbers below the vocabulary
  float* output = nullptr;
  OwnTime time = {};
  int64_t channels = 1, begin = 0, end = 0;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t count = end - begin;
    const int64_t step = begin + i % count, channel = i / count % channels, sample = i / count / channels;
    const bool counts = step < time.steps_of(sample);
    output[(sample * channels + channel) * time.steps + step] =
        counts ? rows[static_cast<int64_t>(tokens[sample * time.steps + step]) * channels + channel] : 0.0f;
  }
};

// gradient[tokens[k]] += the errors at its places, in their order: [first[k], first[k + 1]) of `places`, each sample * steps + step.
struct AddAtTokens {
  const int32_t* tokens = nullptr;  // each once
  const int32_t* first = nullptr;
  const int32_t* places = nullptr;
  const float* output_error = nullptr;  // [sample][channel][step]
  float* gradient = nullptr;            // [token][channel]
  int64_t channels = 1, steps = 1;
  int64_t elements = 0;  // tokens * channels

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t k = i / channels, channel = i % channels;
    float& target = gradient[tokens[k] * channels + channel];
    float sum = target;
    for (int32_t at = first[k]; at < first[k + 1]; ++at)
      sum += output_error[(places[at] / steps * channels + channel) * steps + places[at] % steps];
    target = sum;
  }
};

}  // namespace millrace::gpu
