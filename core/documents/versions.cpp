// How documents of earlier versions become current ones: per kind, one step from each version to the next. See
// proto_text.h for the rules. Plans are at version 2, the other formats at version 1.
#include <algorithm>

#include "core/documents/proto_text.h"
#include "plan.pb.h"

namespace millrace::text {
namespace {

bool is_slice_of(const documents::Flow& flow, const documents::ParameterHome& home, const documents::Plan& plan) {
  const bool parameter = flow.stream() == documents::Flow::PARAMETER;
  const int64_t shard = parameter ? flow.consumer_shard() : flow.producer_shard();
  return flow.tensor() == home.layer() + "." + home.tensor() && flow.channels().begin() == home.offset() &&
         flow.channels().end() == home.offset() + home.count() && shard >= 0 && shard < plan.shards_size() &&
         plan.shards(static_cast<int>(shard)).device() == home.user();
}

// In version 1 a flow of parameters did not say whose they are: its name, range and user did.
void name_homes(Message& message) {
  auto& plan = dynamic_cast<documents::Plan&>(message);
  for (documents::Flow& flow : *plan.mutable_flows()) {
    if (flow.stream() != documents::Flow::PARAMETER && flow.stream() != documents::Flow::GRADIENT) continue;
    const auto home = std::ranges::find_if(plan.homes(), [&](const auto& one) { return is_slice_of(flow, one, plan); });
    if (home != plan.homes().end()) flow.set_home(home - plan.homes().begin());
  }
}

}  // namespace

const MigrationSteps& model_steps() {
  static const MigrationSteps steps;
  return steps;
}

const MigrationSteps& cluster_steps() {
  static const MigrationSteps steps;
  return steps;
}

const MigrationSteps& plan_steps() {
  static const MigrationSteps steps{name_homes};
  return steps;
}

const MigrationSteps& job_steps() {
  static const MigrationSteps steps;
  return steps;
}

const MigrationSteps& catalogue_steps() {
  static const MigrationSteps steps;
  return steps;
}

}  // namespace millrace::text
