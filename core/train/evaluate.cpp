// Evaluation: the whole of a data set, in order, without touching weights or statistics.
#include <chrono>

#include "core/train/feeding.h"
#include "core/train/trainer.h"

namespace millrace {

Evaluation evaluate(SegmentExecutor& segment, const Graph& graph, const Plan& plan, const Dataset& data, const DataTransform& transform,
                    const ScoreVisitor& visit) {
  const auto started = std::chrono::steady_clock::now();
  const std::unique_ptr<Loader> loader = evaluation_loader(data, transform, plan);
  const int64_t classes = graph.classes();
  std::vector<float> scores(static_cast<size_t>(graph.shape_of(graph.scores()).elements() * plan.micro_batch));
  HeldBatch held;
  Score total;
  for (int64_t s = 0; s < evaluation_micro_batches(data, plan); ++s) {
    const Batch& loaded = loader->load(s);
    held.take(loaded, {.training = false, .micro_batch = plan.micro_batch});
    segment.forward(held.view(), loaded.pixels, nullptr, &total);
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
