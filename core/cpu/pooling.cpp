// Max and average pooling over blocks of channels. The position of a maximum is found again in E instead of being kept:
// the first one in row-major order, so that equal values have one answer, and NaN wins.
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/base/index.h"
#include "core/cpu/kernel.h"
#include "core/cpu/lanes.h"
#include "core/cpu/operations.h"
#include "core/cpu/runs.h"
#include "core/cpu/vector_math.h"
#include "core/device/sequence.h"

namespace millrace::cpu {

namespace {

// The part of each window along one axis that lies on the input; never empty, shape inference sees to that.
struct Reach {
  int64_t begin, end;
  int64_t counted;  // what an average divides by: the positions on the input, or those on input and padding
};
std::vector<Reach> reaches(int64_t input, int64_t output, int64_t kernel, int64_t stride, int64_t pad, bool counts_padding) {
  std::vector<Reach> reaches;
  for (int64_t o = 0; o < output; ++o) {
    const int64_t first = o * stride - pad;
    const int64_t begin = std::max<int64_t>(first, 0), end = std::min(first + kernel, input);
    reaches.push_back({begin, end, counts_padding ? std::min(first + kernel, input + pad) - first : end - begin});
  }
  return reaches;
}

// One run of channels of one sample.
struct Plane {
  const Reach* rows;
  const Reach* columns;
  int64_t out_height, out_width, in_width;
  int64_t in_step, out_step;  // from one position to the next
};

using Lanes = std::array<float, kLanes>;

template <typename Visit>
inline void for_each_window(const Plane& p, Visit visit) {
  for (int64_t row = 0; row < p.out_height; ++row)
    for (int64_t column = 0; column < p.out_width; ++column)
      visit((row * p.out_width + column) * p.out_step, p.rows[row], p.columns[column]);
}

// visit(offset of the position), row by row.
template <typename Visit>
inline void for_each_position(const Plane& p, const Reach& rows, const Reach& columns, Visit visit) {
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t c = columns.begin; c < columns.end; ++c) visit((r * p.in_width + c) * p.in_step);
}

template <typename Count>
inline Lanes maximum(const Plane& p, Count lanes, const Reach& rows, const Reach& columns, const float* input) {
  Lanes best;
  best.fill(-std::numeric_limits<float>::infinity());
  for_each_position(p, rows, columns, [&](int64_t at) {
    for (int64_t l = 0; l < lanes; ++l) {
      const float x = input[at + l];
      float& lane = fast_item(best, l);
      lane = (x <= lane) | (lane != lane) ? lane : x;  // NaN wins
    }
  });
  return best;
}

inline float divisor(const Reach& rows, const Reach& columns) { return static_cast<float>(rows.counted * columns.counted); }

inline void max_forward(const Plane& p, int64_t count, const float* __restrict input, float* __restrict output) {
  with_lanes(count, [&](auto lanes) {
    for_each_window(p, [&](int64_t at, const Reach& rows, const Reach& columns) {
      const Lanes best = maximum(p, lanes, rows, columns, input);
      for (int64_t l = 0; l < lanes; ++l) output[at + l] = fast_item(best, l);
    });
  });
}

inline void max_backward(const Plane& p, int64_t count, const float* input, const float* output_error, float* input_error) {
  with_lanes(count, [&](auto lanes) {
    // A vector in so many words: the compiler finds no vectors in a choice between two sums by itself.
    constexpr bool kNarrow = std::is_same_v<decltype(lanes), std::integral_constant<int64_t, kLanes / 2>>;
    using LaneVector = typename VectorOf<kNarrow ? kLanes / 2 : kLanes>::Type;
    const auto load = [&](LaneVector& to, const float* from) { std::memcpy(&to, from, static_cast<size_t>(lanes) * sizeof(float)); };
    for_each_window(p, [&](int64_t at, const Reach& rows, const Reach& columns) {
      const Lanes maxima = maximum(p, lanes, rows, columns, input);
      LaneVector best{}, rest{}, x{}, dx{};  // rest: the error until its place is found
      load(best, maxima.data());
      load(rest, output_error + at);
      for_each_position(p, rows, columns, [&](int64_t from) {
        load(x, input + from);
        load(dx, input_error + from);
        const LaneVector error = x < best ? LaneVector{} : rest;  // NaN counts as the maximum
        dx += error;
        rest -= error;
        std::memcpy(input_error + from, &dx, static_cast<size_t>(lanes) * sizeof(float));
      });
    });
  });
}

inline void average_forward(const Plane& p, int64_t count, const float* input, float* output) {
  with_lanes(count, [&](auto lanes) {
    for_each_window(p, [&](int64_t at, const Reach& rows, const Reach& columns) {
      Lanes sum{};
      for (int64_t r = rows.begin; r < rows.end; ++r)
        for (int64_t c = columns.begin; c < columns.end; ++c) {
          const float* const x = input + (r * p.in_width + c) * p.in_step;
          for (int64_t l = 0; l < lanes; ++l) fast_item(sum, l) += x[l];
        }
      const float window = divisor(rows, columns);
      for (int64_t l = 0; l < lanes; ++l) output[at + l] = fast_item(sum, l) / window;
    });
  });
}

inline void average_backward(const Plane& p, int64_t count, const float* output_error, float* input_error) {
  with_lanes(count, [&](auto lanes) {
    for_each_window(p, [&](int64_t at, const Reach& rows, const Reach& columns) {
      const float window = divisor(rows, columns);
      for (int64_t r = rows.begin; r < rows.end; ++r)
        for (int64_t c = columns.begin; c < columns.end; ++c) {
          float* const dx = input_error + (r * p.in_width + c) * p.in_step;
          for (int64_t l = 0; l < lanes; ++l) dx[l] += output_error[at + l] / window;
        }
    });
  });
}

class Pooling final : public CpuKernel {
 public:
  Pooling(const SharedEngine& engine, const KernelSpec& spec, const Pool2d& pool)
      : CpuKernel(engine, spec),
        max_(pool.kind == PoolKind::kMax),
        rows_(reaches(spec.inputs[0].height, spec.output.height, pool.kernel_h, pool.stride_h, pool.pad_h, pool.count_include_pad)),
        columns_(reaches(spec.inputs[0].width, spec.output.width, pool.kernel_w, pool.stride_w, pool.pad_w, pool.count_include_pad)),
        in_(layout_of(spec.inputs[0])),
        out_(layout_of(spec.output)),
        runs_(runs_of(in_, out_)),
        plane_{.rows = rows_.data(),
               .columns = columns_.data(),
               .out_height = spec.output.height,
               .out_width = spec.output.width,
               .in_width = spec.inputs[0].width,
               .in_step = in_.block,
               .out_step = out_.block} {}

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    if (std::holds_alternative<GlobalPool>(spec().operation)) refuse_short_samples(spec(), *arguments.batch);
    const float* const input = own(arguments.inputs[0]).data();
    float* const output = own(arguments.output).data();
    for_each_run([&](int64_t sample, const Run& run) {
      const float* const x = input + in_.offset(sample, run.channel);
      float* const y = output + out_.offset(sample, run.channel);
      if (max_) return vectorised<max_forward>(plane_, run.lanes, x, y);
      vectorised<average_forward>(plane_, run.lanes, x, y);
    });
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const float* const input = own(arguments.inputs[0]).data();
    const float* const output_error = own(arguments.output_error).data();
    CpuTensor& target = own(arguments.input_errors[0]);
    const bool adds = arguments.adds[0] != 0;
    float* const input_error = target.data();
    for_each_run([&](int64_t sample, const Run& run) {
      float* const dx = input_error + in_.offset(sample, run.channel);
      const float* const dy = output_error + out_.offset(sample, run.channel);
      if (!adds)
        for (int64_t position = 0; position < in_.plane; ++position) std::fill_n(dx + position * in_.block, run.lanes, 0.0f);
      if (max_) return vectorised<max_backward>(plane_, run.lanes, input + in_.offset(sample, run.channel), dy, dx);
      vectorised<average_backward>(plane_, run.lanes, dy, dx);
    });
  }

 private:
  template <typename Visit>
  void for_each_run(Visit visit) const {
    const auto runs = static_cast<int64_t>(runs_.size());
    parallel_for(threads(), samples() * runs, [&](int64_t i) { visit(i / runs, fast_item(runs_, i % runs)); });
  }

  bool max_;
  std::vector<Reach> rows_, columns_;
  Layout in_, out_;
  std::vector<Run> runs_;
  Plane plane_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Pool2d& operation) {
  return std::make_unique<Pooling>(engine, spec, operation);
}

// One window as large as the input.
std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const GlobalPool& operation) {
  const Shape& in = spec.inputs[0];
  return make_kernel_for(engine, spec, Pool2d{.kind = operation.kind, .kernel_h = in.height, .kernel_w = in.width});
}

}  // namespace millrace::cpu
