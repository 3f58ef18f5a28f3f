#include "node/ring/ring_evaluator.h"

#include <fmt/format.h>

#include <sstream>

#include "core/base/files.h"
#include "core/train/segment_state.h"
#include "node/ring/together.h"
#include "transport/streams/ring_layout.h"

namespace millrace {
namespace {

// Decides nothing: there is one evaluation, and then the end.
class OneEvaluation final : public Conductor {
 public:
  std::optional<Decision> decide(int64_t) override { return std::nullopt; }
  void updated(int64_t) override {}
  void scored(int64_t, const Score&) override {}
  void evaluated(int64_t, const Score& score) override {
    score_ = score;
    over_ = true;
  }
  void gradient_norm(int64_t, double) override {}
  void saved(int64_t, SaveAssembler&) override {}
  bool step() override { return false; }
  bool finished() override { return over_; }
  void stop_requested() override {}
  void checkpoint_requested() override {}

  const Score& score() const { return score_; }

 private:
  Score score_;
  bool over_ = false;
};

}  // namespace

RingEvaluator::RingEvaluator(const TrainingTask& task, Transport& transport, Agreement& agreement, OpenDevice open_device)
    : task_(task),
      transport_(transport),
      agreement_(agreement),
      open_device_(std::move(open_device)),
      plan_(run_plan(task.plan)),
      flows_(ring_flows(plan_, *task.graph)) {}

RingEvaluator::~RingEvaluator() = default;

int64_t RingEvaluator::rank_of_scores() const {
  return ring_layout(plan_.devices(), transport_.ranks()).rank_of(device_of_loss(plan_, *task_.graph));
}

Score RingEvaluator::run(const TensorMap& weights, const EvaluationVisitor& visit) {
  agreement_.require_equal("plan", digest_of(text_of(plan_)));
  agreement_.require_equal("samples", std::to_string(task_.data.test.size()));
  together(agreement_, "checking the ring", [&] { ring_layout(plan_.devices(), transport_.ranks()); });
  transport_.open(flows_.table);
  together(agreement_, "loading the weights", [&] {
    for (const Node& node : task_.graph->nodes())
      for (const ParameterSpec& parameter : node.parameters) checked_values(weights, stored_name(node, parameter), parameter);
    RingContext context;
    context.task = &task_;
    context.run = &plan_;
    context.transport = &transport_;
    context.evaluations = &visit;
    rank_ = std::make_unique<Rank>(context, flows_, open_device_, RankSignals{}, nullptr);
    rank_->initialize(task_.job.seed);
    rank_->take_weights(weights);
    rank_->evaluate_only();
  });
  OneEvaluation conductor;
  try {
    rank_->run(transport_.rank() == 0 ? &conductor : nullptr);
  } catch (const Error& error) {
    transport_.abort(error);
    throw;
  }
  // Sums read back to the same bits.
  const Score& heard = conductor.score();
  std::istringstream text(agreement_.broadcast("score", fmt::format("{} {} {}", heard.loss, heard.correct, heard.samples)));
  Score score;
  text >> score.loss >> score.correct >> score.samples;
  return score;
}

}  // namespace millrace
