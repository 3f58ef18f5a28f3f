#include "core/data/log_mel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"

#ifdef MILLRACE_HAS_KISSFFT
#include <kissfft/kiss_fftr.h>
#endif

namespace millrace {

#ifdef MILLRACE_HAS_KISSFFT

struct LogMel::Transform {
  explicit Transform(size_t count) : size(count), plan(kiss_fftr_alloc(static_cast<int>(count), 0, nullptr, nullptr)) {}
  ~Transform() { kiss_fftr_free(plan); }
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  // Lines 0 to size / 2 of the power spectrum.
  void power(const std::vector<float>& signal, std::vector<double>& lines) const {
    std::vector<kiss_fft_cpx> spectrum(size / 2 + 1);
    kiss_fftr(plan, signal.data(), spectrum.data());
    for (size_t i = 0; i < spectrum.size(); ++i) {
      const auto re = static_cast<double>(spectrum[i].r), im = static_cast<double>(spectrum[i].i);
      lines[i] = re * re + im * im;
    }
  }

  size_t size;
  kiss_fftr_cfg plan;
};

bool has_speech_front_end() { return true; }

#else

struct LogMel::Transform {
  explicit Transform(size_t count) : size(count) {
    fail(ErrorCode::kUnavailable,
         "this build hears no speech: it has no Fourier transform; install the Debian package libkissfft-dev and configure again");
  }
  void power(const std::vector<float>&, std::vector<double>&) const {}

  size_t size;
};

bool has_speech_front_end() { return false; }

#endif

namespace {

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

}  // namespace

LogMel::LogMel(const Settings& settings) : settings_(settings) {
  constexpr double kLowest = 60;
  MILLRACE_CHECK(settings.rate > 0 && settings.bands > 0, "{} bands at {} Hz", settings.bands, settings.rate);
  const auto rate = static_cast<double>(settings.rate);
  window_ = std::llround(settings.window_seconds * rate);
  step_ = std::llround(settings.step_seconds * rate);
  MILLRACE_CHECK(window_ >= 2 && step_ >= 1, "windows of {} samples every {}", window_, step_);
  transform_ = std::make_unique<Transform>(std::bit_ceil(to_size(window_)));

  for (int64_t i = 0; i < window_; ++i)
    shape_.push_back(0.5 - 0.5 * std::cos(2 * std::numbers::pi * (static_cast<double>(i) + 0.5) / static_cast<double>(window_)));

  // Corners at equal distances on the mel scale; each band is a triangle over three of them.
  const double lowest = mel_of(kLowest), highest = mel_of(rate / 2);
  const auto corner = [&](int64_t i) {
    return hertz_of(lowest + (highest - lowest) * static_cast<double>(i) / static_cast<double>(settings.bands + 1));
  };
  const double line_width = rate / static_cast<double>(transform_->size);
  for (int64_t b = 0; b < settings.bands; ++b) {
    const double left = corner(b), middle = corner(b + 1), right = corner(b + 2);
    Band band;
    for (size_t line = 0; line <= transform_->size / 2; ++line) {
      const double at = static_cast<double>(line) * line_width;
      const double weight = std::min((at - left) / (middle - left), (right - at) / (right - middle));
      if (weight <= 0) continue;
      if (band.weights.empty()) band.first = line;
      band.weights.push_back(weight);
    }
    // Narrower than the lines are apart: the nearest one.
    if (band.weights.empty()) {
      band.first = to_size(std::llround(middle / line_width));
      band.weights.push_back(1);
    }
    bands_.push_back(std::move(band));
  }
}

LogMel::~LogMel() = default;

int64_t LogMel::frames(size_t samples) const {
  const auto count = static_cast<int64_t>(samples);
  return count < window_ ? 1 : 1 + (count - window_) / step_;
}

void LogMel::compute(std::span<const int16_t> samples, std::span<float> frames) const {
  constexpr double kPreEmphasis = 0.97, kFullScale = 32768, kSilence = 1e-10;
  const int64_t count = this->frames(samples.size());
  MILLRACE_CHECK(static_cast<int64_t>(frames.size()) == count * bands(), "{} numbers for {} frames of {} bands", frames.size(), count,
                 bands());
  const auto sample = [&](int64_t at) {
    return at < 0 || at >= static_cast<int64_t>(samples.size()) ? 0.0 : static_cast<double>(fast_item(samples, at)) / kFullScale;
  };
  std::vector<float> signal(transform_->size);
  std::vector<double> lines(transform_->size / 2 + 1);
  for (int64_t frame = 0; frame < count; ++frame) {
    for (int64_t i = 0; i < window_; ++i) {
      const int64_t at = frame * step_ + i;
      fast_item(signal, i) = static_cast<float>(fast_item(shape_, i) * (sample(at) - kPreEmphasis * sample(at - 1)));
    }
    transform_->power(signal, lines);
    for (size_t b = 0; b < bands_.size(); ++b) {
      double power = 0;
      for (size_t i = 0; i < bands_[b].weights.size(); ++i) power += bands_[b].weights[i] * lines[bands_[b].first + i];
      frames[to_size(frame) * bands_.size() + b] = static_cast<float>(std::log(power + kSilence));
    }
  }
}

}  // namespace millrace
