// What a speech network hears: the loudness of bands of frequency, spaced as ears space them, in windows that follow each other.
//
//   const LogMel front({.rate = 8000});
//   std::vector<float> frames(to_size(front.frames(sound.samples.size()) * front.bands()));
//   front.compute(sound.samples, frames);                   // [frame][band]
//
// Windows of 25 ms every 10 ms (Hann, after a pre-emphasis of 0.97), power spectrum, triangular bands equally wide on the mel scale
// from 60 Hz to half the rate, natural logarithm. A sound shorter than a window is one frame, padded with silence; what lies
// behind the last whole window is left out.
// The Fourier transform is KISS FFT's. In a build without it the constructor fails with kUnavailable naming the package.
// One thread at a time: the transform has working space of its own. Internal to core/data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace millrace {

class LogMel {
 public:
  struct Settings {
    int64_t rate = 8000;  // samples per second
    int64_t bands = 40;
    double window_seconds = 0.025;
    double step_seconds = 0.010;
  };

  explicit LogMel(const Settings& settings);
  ~LogMel();
  LogMel(const LogMel&) = delete;
  LogMel& operator=(const LogMel&) = delete;

  int64_t bands() const { return settings_.bands; }
  // At least 1.
  int64_t frames(size_t samples) const;
  void compute(std::span<const int16_t> samples, std::span<float> frames) const;

 private:
  struct Transform;
  // The part of the spectrum that a band hears, from its first line on.
  struct Band {
    size_t first = 0;
    std::vector<double> weights;
  };

  Settings settings_;
  int64_t window_ = 0, step_ = 0;  // samples
  std::vector<double> shape_;      // of the window
  std::vector<Band> bands_;
  std::unique_ptr<Transform> transform_;
};

// Whether this build has what LogMel needs.
bool has_speech_front_end();

}  // namespace millrace
