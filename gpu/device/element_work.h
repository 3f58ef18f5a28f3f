// Everything a device calculates element by element, as functions of one index: the same source runs on the GPU, one thread for each
// index, and on the host in tests, one index after the other. No two indices write the same element, so no order matters.
//
//   const ElementWork work = AddBias{.values = y, .bias = b, .channels = 64, .plane = 49, .elements = n};
//   std::visit([](const auto& w) { for (int64_t i = 0; i < w.elements; ++i) w(i); }, work);
//
// Data is fp32 and canonical: [sample][channel][row][column]. Pointers are the GPU's; null where a part is not wanted.
// The meaning of each is the reference's (core/reference). Plain values, no libraries: read by the CUDA compiler.
#pragma once

#include <variant>

#include "core/device/activation_math.h"
#include "core/device/optimizer_element.h"
#include "core/device/smoothed_label.h"
#include "gpu/device/dropout_draw.h"
#include "gpu/device/message_work.h"
#include "gpu/device/narrow_float.h"
#include "gpu/device/sequence_work.h"
#include "gpu/device/window_work.h"

namespace millrace::gpu {

// to[strides] (+)= from[strides] over four nested extents: slices of channels, sums, concatenation, sequences of maps.
struct StridedCopy {
  const float* from = nullptr;
  float* to = nullptr;
  int64_t extent[4] = {1, 1, 1, 1};
  int64_t from_stride[4] = {0, 0, 0, 0};
  int64_t to_stride[4] = {0, 0, 0, 0};
  bool adds = false;
  int64_t elements = 0;  // the product of the extents

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    int64_t source = 0, target = 0;
    for (int d = 3; d >= 0; --d) {
      const int64_t at = i % extent[d];
      i /= extent[d];
      source += at * from_stride[d];
      target += at * to_stride[d];
    }
    to[target] = adds ? to[target] + from[source] : from[source];
  }
};

// All elements, in order.
inline StridedCopy straight_copy(const float* from, float* to, int64_t elements, bool adds) {
  return {.from = from,
          .to = to,
          .extent = {1, 1, 1, elements},
          .from_stride = {0, 0, 0, 1},
          .to_stride = {0, 0, 0, 1},
          .adds = adds,
          .elements = elements};
}

struct AddBias {
  float* values = nullptr;
  const float* bias = nullptr;
  int64_t channels = 1, plane = 1;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { values[i] += bias[i / plane % channels]; }
};

// to (+)= activation(from); in place where both are the same.
struct Activate {
  const float* from = nullptr;
  float* to = nullptr;
  ActivationMath<float> activation{Activation{}};
  PartOfTime part = {};
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { to[part.index(i)] = activation(from[part.index(i)]); }
};

// error *= the derivative at what came out.
struct MultiplyByDerivative {
  const float* output = nullptr;
  float* error = nullptr;
  ActivationMath<float> activation{Activation{}};
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { error[i] *= activation.derivative(output[i]); }
};

// The same of a layer of its own, from what went in.
struct ActivationError {
  const float* input = nullptr;
  const float* output_error = nullptr;
  float* input_error = nullptr;
  ActivationMath<float> activation{Activation{}};
  bool adds = false;
  PartOfTime part = {};
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t at = part.index(i);
    const float error = output_error[at] * activation.derivative(activation(input[at]));
    input_error[at] = adds ? input_error[at] + error : error;
  }
};

// to (+)= from, with dropped elements zero and the others scaled: forward and back alike.
struct DropOut {
  const float* from = nullptr;
  float* to = nullptr;
  const int64_t* sample_ids = nullptr;  // null: nothing is dropped
  DropoutDraw draw;
  int64_t elements_per_sample = 1;
  bool adds = false;
  PartOfTime part = {};
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t at = part.index(i);
    const float factor = sample_ids == nullptr ? 1.0f : draw.factor(sample_ids[at / elements_per_sample], at % elements_per_sample);
    const float value = from[at] * factor;
    to[at] = adds ? to[at] + value : value;
  }
};

struct UpdateElements {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* first_slot = nullptr;
  float* second_slot = nullptr;
  float* average = nullptr;
  OptimizerMath<float> optimizer;
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    optimizer(weights[i], gradients[i], first_slot == nullptr ? nullptr : first_slot + i,
              second_slot == nullptr ? nullptr : second_slot + i, average == nullptr ? nullptr : average + i);
  }
};

// Where [sample][channel][position] lies as [sample][position][channel]; one channel leaves all where it is.
struct ChannelsLast {
  int64_t channels = 1, plane = 1;

  // Element i of what has channels last, in canonical order; and the other way.
  MILLRACE_HOST_DEVICE int64_t in_canonical(int64_t i) const { return moved(i, channels, plane); }
  MILLRACE_HOST_DEVICE int64_t in_channels_last(int64_t i) const { return moved(i, plane, channels); }

 private:
  MILLRACE_HOST_DEVICE static int64_t moved(int64_t i, int64_t inner, int64_t outer) {
    if (inner == 1 || outer == 1) return i;
    const int64_t rest = i % (inner * outer);
    return i - rest + rest % inner * outer + rest / inner;
  }
};

// fp32 to sixteen bits, rounded to nearest; with channels last where `order` says so.
struct Narrow {
  const float* from = nullptr;
  uint16_t* to = nullptr;
  bool bfloat = true;
  ChannelsLast order = {};
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float value = from[order.in_canonical(i)];
    to[i] = bfloat ? bfloat16_of(value) : float16_of(value);
  }
};
struct Widen {
  const uint16_t* from = nullptr;
  float* to = nullptr;
  bool bfloat = true;
  bool adds = false;
  ChannelsLast order = {};
  int64_t elements = 0;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const uint16_t bits = from[order.in_channels_last(i)];
    const float value = bfloat ? float_of_bfloat16(bits) : float_of_float16(bits);
    to[i] = adds ? to[i] + value : value;
  }
};

// The step in front of each sample's end; zero for an empty sample. `valid`: rows by sample, null for all.
struct TakeLastStep {
  const float* input = nullptr;
  float* output = nullptr;
  const int32_t* valid = nullptr;
  int64_t channels = 1, steps = 1;
  int64_t elements = 0;  // of the output

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t last = (valid == nullptr ? steps : valid[i / channels]) - 1;
    output[i] = last < 0 ? 0.0f : input[i * steps + last];
  }
};
struct LastStepError {
  const float* output_error = nullptr;
  float* input_error = nullptr;
  const int32_t* valid = nullptr;
  int64_t channels = 1, steps = 1;
  bool adds = false;
  int64_t elements = 0;  // of the input

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t feature = i / steps;
    const int64_t last = (valid == nullptr ? steps : valid[feature / channels]) - 1;
    const float error = i % steps == last ? output_error[feature] : 0.0f;
    input_error[i] = adds ? input_error[i] + error : error;
  }
};

// What the loss of one position came to; only the host adds up.
struct PositionScore {
  double loss = 0;
  int32_t labelled = 0;
  int32_t correct = 0;
};

// Softmax over channels at every position, and its score where there are labels (core/device/softmax_loss.h says what they mean).
struct SoftmaxPositions {
  const float* logits = nullptr;
  float* probabilities = nullptr;
  const int32_t* labels = nullptr;
  PositionScore* scores = nullptr;
  int64_t classes = 1, positions = 1;
  SmoothedLabel<float> target = {};
  int64_t elements = 0;  // samples x positions

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t at = i / positions * classes * positions + i % positions;
    const float* x = logits + at;
    float* p = probabilities + at;
    int64_t guess = 0;
    for (int64_t c = 1; c < classes; ++c)
      if (x[c * positions] > x[guess * positions]) guess = c;
    const float largest = x[guess * positions];
    float sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += p[c * positions] = std::exp(x[c * positions] - largest);
    for (int64_t c = 0; c < classes; ++c) p[c * positions] /= sum;
    if (scores == nullptr) return;
    const int64_t label = labels[i];
    PositionScore score;
    if (label >= 0) {
      score.loss = static_cast<double>(std::log(sum) - target.mean(x, label, guess, positions));
      score.labelled = 1;
      score.correct = guess == label ? 1 : 0;
    }
    scores[i] = score;
  }
};
struct SoftmaxError {
  const float* probabilities = nullptr;
  const int32_t* labels = nullptr;
  float* input_error = nullptr;
  int64_t classes = 1, positions = 1;
  float scale = 1;
  SmoothedLabel<float> target = {};
  bool adds = false;
  int64_t elements = 0;  // of the input

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t sample = i / (classes * positions);
    const int64_t c = i / positions % classes;
    const int64_t label = labels[sample * positions + i % positions];
    const float error = label < 0 ? 0.0f : (probabilities[i] - target.of(c == label)) * scale;
    input_error[i] = adds ? input_error[i] + error : error;
  }
};

using ElementWork = std::variant<StridedCopy, AddBias, Activate, MultiplyByDerivative, ActivationError, DropOut, UpdateElements, Narrow,
                                 Widen, TakeLastStep, LastStepError, SoftmaxPositions, SoftmaxError, Pool, PoolError, NormaliseResponse,
                                 ResponseError, NormaliseBatch, BatchError, CommitBatchNorm, GatherBatchNorm, CommitGathered, IntoOwnTime,
                                 OutOfOwnTime, ClearEnded, StartStates, EndStates, LookUp, AddAtTokens, PackMessage, UnpackMessage>;

}  // namespace millrace::gpu
