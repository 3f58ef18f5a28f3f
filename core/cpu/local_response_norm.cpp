// Local response normalisation across channels, one position at a time: the channels of a position are gathered side by
// side with zeros around them, so that sums over a window of channels are sums of shifted rows.
#include <cmath>

#include "core/base/index.h"
#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

struct Formula {
  int64_t size;
  float share;  // alpha / size
  float beta;
  float k;
};

// base^-beta of the usual beta, which needs no logarithm: loops over it are vectors'.
constexpr float kUsualBeta = 0.75f;
constexpr auto usual_falloff = [](float base) { return 1.0f / (std::sqrt(base) * std::sqrt(std::sqrt(base))); };

// bases[c] = k + share * sum of x^2 over the window of c. `squares` has size/2 zeros on both sides.
inline void find_bases(const Formula& f, const float* __restrict x, int64_t channels, float* __restrict squares, float* __restrict bases) {
  for (int64_t c = 0; c < channels; ++c) squares[c + f.size / 2] = x[c] * x[c], bases[c] = 0;
  for (int64_t shift = 0; shift < f.size; ++shift)
    for (int64_t c = 0; c < channels; ++c) bases[c] += squares[c + shift];
  for (int64_t c = 0; c < channels; ++c) bases[c] = f.k + f.share * bases[c];
}

inline void scale_down(const Formula& f, const float* __restrict bases, int64_t channels, float* __restrict x) {
  if (f.beta == kUsualBeta)
    for (int64_t c = 0; c < channels; ++c) x[c] *= usual_falloff(bases[c]);
  else
    for (int64_t c = 0; c < channels; ++c) x[c] *= std::pow(bases[c], -f.beta);
}

// x_c appears in its own numerator, and in the base of every channel whose window holds c. `errors` becomes dx;
// `products` has size/2 zeros on both sides.
inline void spread_through_bases(const Formula& f, const float* __restrict x, const float* __restrict bases, int64_t channels,
                                 float* __restrict products, float* __restrict through_bases, float* __restrict errors) {
  const int64_t half = f.size / 2;
  const auto scale = [=](const auto& fall) {
    for (int64_t c = 0; c < channels; ++c) {
      const float scaled = errors[c] * fall(bases[c]);
      products[c + half] = scaled * x[c] / bases[c];
      errors[c] = scaled;
      through_bases[c] = 0;
    }
  };
  if (f.beta == kUsualBeta)
    scale(usual_falloff);
  else
    scale([&f](float base) { return std::pow(base, -f.beta); });
  for (int64_t shift = 0; shift < f.size; ++shift)
    for (int64_t c = 0; c < channels; ++c) through_bases[c] += products[c + shift];
  for (int64_t c = 0; c < channels; ++c) errors[c] -= 2.0f * f.share * f.beta * x[c] * through_bases[c];
}

class ResponseNormalisation final : public CpuKernel {
 public:
  ResponseNormalisation(const SharedEngine& engine, const KernelSpec& spec, const LocalResponseNorm& o)
      : CpuKernel(engine, spec),
        formula_{o.size, static_cast<float>(o.alpha / static_cast<double>(o.size)), static_cast<float>(o.beta), static_cast<float>(o.k)},
        layout_(layout_of(spec.output)),
        row_(spec.output.channels + o.size) {
    ScratchPlan plan;
    rows_ = plan.add(to_size(threads() * kRows * row_) * sizeof(float));
    reserve(plan);
  }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const float* const input = own(arguments.inputs[0]).data();
    float* const output = own(arguments.output).data();
    for_each_position([&](int64_t sample, int64_t position, const Rows& rows) {
      gather(input, sample, position, rows.x);
      vectorised<find_bases>(formula_, rows.x, channels(), rows.padded, rows.bases);
      vectorised<scale_down>(formula_, rows.bases, channels(), rows.x);
      scatter(rows.x, sample, position, output, false);
    });
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const float* const input = own(arguments.inputs[0]).data();
    const float* const output_error = own(arguments.output_error).data();
    const bool adds = arguments.adds[0] != 0;
    CpuTensor& target = own(arguments.input_errors[0]);
    float* const input_error = target.data();
    for_each_position([&](int64_t sample, int64_t position, const Rows& rows) {
      gather(input, sample, position, rows.x);
      gather(output_error, sample, position, rows.errors);
      vectorised<find_bases>(formula_, rows.x, channels(), rows.padded, rows.bases);
      vectorised<spread_through_bases>(formula_, rows.x, rows.bases, channels(), rows.padded, rows.sums, rows.errors);
      scatter(rows.errors, sample, position, input_error, adds);
    });
  }

 private:
  // Of one thread, each as long as the channels; `padded` has the window's zeros around them.
  struct Rows {
    float *x, *bases, *padded, *errors, *sums;
  };
  static constexpr int64_t kRows = 5;

  int64_t channels() const { return spec().output.channels; }

  template <typename Visit>
  void for_each_position(Visit visit) const {
    float* const scratch_rows = scratch<float>(rows_);
    const auto rows_of = [&](int thread) {
      float* const first = scratch_rows + thread * kRows * row_;
      return Rows{first, first + row_, first + 2 * row_, first + 3 * row_, first + 4 * row_};
    };
    for (int thread = 0; thread < threads(); ++thread) std::fill_n(rows_of(thread).padded, row_, 0.0f);
    parallel_for_threads(threads(), samples() * layout_.plane,
                         [&](int64_t i, int thread) { visit(i / layout_.plane, i % layout_.plane, rows_of(thread)); });
  }

  void gather(const float* tensor, int64_t sample, int64_t position, float* row) const {
    for (int64_t c = 0; c < channels(); c += layout_.block)
      std::copy_n(tensor + layout_.offset(sample, c) + position * layout_.block, std::min(layout_.block, channels() - c), row + c);
  }
  void scatter(const float* row, int64_t sample, int64_t position, float* tensor, bool add) const {
    for (int64_t c = 0; c < channels(); c += layout_.block) {
      float* const to = tensor + layout_.offset(sample, c) + position * layout_.block;
      const int64_t lanes = std::min(layout_.block, channels() - c);
      for (int64_t l = 0; l < lanes; ++l) to[l] = add ? to[l] + row[c + l] : row[c + l];
    }
  }

  Formula formula_;
  Layout layout_;
  int64_t row_;
  size_t rows_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const LocalResponseNorm& operation) {
  return std::make_unique<ResponseNormalisation>(engine, spec, operation);
}

}  // namespace millrace::cpu
