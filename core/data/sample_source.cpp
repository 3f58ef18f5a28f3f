#include "core/data/sample_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/data/transform.h"

namespace millrace {
namespace {

SampleSource image_source(const Dataset& data, const DataTransform& adaptation, const Augmentation& augmentation, uint64_t seed) {
  SampleSource source;
  source.elements = adaptation.output.elements();
  source.read = transformed_images(data, ImageTransform(data, adaptation, augmentation, seed));
  source.read_labels = [&data](int64_t sample, std::span<int32_t> labels) { labels[0] = fast_item(data.labels, sample); };
  return source;
}

// Values [step][feature] to the layout of the network's input, zeros behind the last step.
void lay_out(std::span<const float> values, int64_t steps, const Shape& output, std::span<float> pixels) {
  const int64_t rows = output.height, features = output.channels * output.width;
  std::ranges::fill(pixels, 0.0F);
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t feature = 0; feature < features; ++feature)
      fast_item(pixels, output.width == 1 ? feature * rows + step : step * features + feature) =
          fast_item(values, step * features + feature);
}

// Images of floats, as they are.
SampleSource float_image_source(const Dataset& data, const DataTransform& transform) {
  if (transform.output != data.shape)
    fail(ErrorCode::kMismatch,
         "{}: images of floats are taken as they are, and the network wants {} instead of {}; bring them to that shape, or save them as "
         "bytes (uint8), which are padded and enlarged",
         data.name, text_of(transform.output), text_of(data.shape));
  const Sequences& samples = *data.sequences;
  return {.elements = data.shape.elements(),
          .labels_each = 1,
          .read = [&samples](int64_t, int64_t sample, std::span<float> pixels) { samples.read(sample, pixels); },
          .read_labels = [&samples](int64_t sample, std::span<int32_t> labels) { samples.read_labels(sample, labels); }};
}

SampleSource sequence_source(const Dataset& data, const DataTransform& transform) {
  const Sequences& sequences = *data.sequences;
  const Shape output = transform.output;
  MILLRACE_CHECK((output.width == 1 || output.channels == 1) && output.channels * output.width == sequences.features() &&
                     output.height >= data.shape.height,
                 "{}: {} features do not become {}", data.name, sequences.features(), text_of(output));
  SampleSource source;
  source.elements = output.elements();
  source.labels_each = data.labels_each;
  source.read = [&sequences, output, scratch = std::vector<float>()](int64_t, int64_t sample, std::span<float> pixels) mutable {
    const int64_t steps = sequences.steps(sample);
    scratch.resize(to_size(steps * sequences.features()));
    sequences.read(sample, scratch);
    lay_out(scratch, steps, output, pixels);
  };
  source.read_labels = [&sequences](int64_t sample, std::span<int32_t> labels) { sequences.read_labels(sample, labels); };
  if (data.lengths_differ) source.steps = [&sequences](int64_t sample) { return static_cast<int32_t>(sequences.steps(sample)); };
  return source;
}

}  // namespace

SampleSource sample_source(const Dataset& data, const DataTransform& transform, const Augmentation& augmentation, uint64_t seed) {
  if (!data.sequences) return image_source(data, transform, augmentation, seed);
  if (augmentation != Augmentation{})
    fail(ErrorCode::kUsage, "{}: random crops and flips are for images; leave the augmentation out", data.name);
  if (data.kind == InputKind::kImage) return float_image_source(data, transform);
  return sequence_source(data, transform);
}

BatchSampler training_order(const Dataset& data, uint64_t seed, const BatchCut& cut) {
  if (data.flows) return BatchSampler::streams(data.size(), cut);
  if (!data.lengths_differ) return BatchSampler::training(data.size(), seed, cut);
  std::vector<int32_t> lengths(to_size(data.size()));
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<int32_t>(data.sequences->steps(static_cast<int64_t>(i)));
  return BatchSampler::buckets(lengths, seed, cut);
}

}  // namespace millrace
