// Evaluation: the whole of a data set, in order, without touching weights or statistics.
#include <chrono>

#include "core/data/sampler.h"
#include "core/data/transform.h"
#include "core/train/trainer.h"

namespace millrace {

Evaluation evaluate(SegmentExecutor& segment, const Graph& graph, const Plan& plan, const Dataset& data, const DataTransform& transform,
                    const ScoreVisitor& visit) {
  const auto started = std::chrono::steady_clock::now();
  const BatchSampler batches = BatchSampler::evaluation(data.size(), {.mini_batch = plan.mini_batch, .micro_batch = plan.micro_batch});
  Loader loader(data, ImageTransform(data, transform), batches);
  const int64_t classes = graph.classes();
  std::vector<float> scores(static_cast<size_t>(graph.shape_of(graph.scores()).elements() * plan.micro_batch));
  std::vector<int32_t> labels(static_cast<size_t>(plan.micro_batch));
  std::vector<int64_t> ids(static_cast<size_t>(plan.micro_batch));
  Score total;
  for (int64_t s = 0; s < batches.micro_batches_per_epoch(); ++s) {
    const Batch& loaded = loader.load(s);
    // A short tail runs with samples that have no label, which the loss leaves out.
    std::fill(labels.begin(), labels.end(), kNoLabel);
    std::fill(ids.begin(), ids.end(), int64_t{0});
    std::copy(loaded.labels.begin(), loaded.labels.end(), labels.begin());
    std::copy(loaded.sample_ids.begin(), loaded.sample_ids.end(), ids.begin());
    MicroBatch batch;
    batch.index = s;
    batch.training = false;
    batch.sample_ids = ids;
    batch.labels = labels;
    segment.forward(batch, loaded.pixels, nullptr, &total);
    if (!visit) continue;
    segment.read_scores(false, scores);
    for (size_t i = 0; i < loaded.sample_ids.size(); ++i)
      visit(loaded.sample_ids[i], loaded.labels[i],
            std::span<const float>(scores).subspan(i * static_cast<size_t>(classes), static_cast<size_t>(classes)));
  }
  Evaluation evaluation;
  evaluation.samples = total.samples;
  evaluation.loss = total.loss / static_cast<double>(std::max<int64_t>(1, total.samples));
  evaluation.accuracy = static_cast<double>(total.correct) / static_cast<double>(std::max<int64_t>(1, total.samples));
  evaluation.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return evaluation;
}

}  // namespace millrace
