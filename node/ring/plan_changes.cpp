#include "node/ring/plan_changes.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"

namespace millrace {
namespace {

std::optional<Plan> plan_of(const CheckpointFacts& facts, const std::filesystem::path& path) {
  try {
    const std::string text = read_text(path);
    if (digest_of(text) == facts.plan_digest) return parse_plan(text, path.string());
  } catch (const Error&) {  // it only serves a message
  }
  return std::nullopt;
}

class Changes {
 public:
  template <typename Value>
  void compare(std::string_view what, const Value& was, const Value& is) {
    if (was == is) return;
    text += fmt::format("{}{} {} (was {})", text.empty() ? "" : ", ", what, is, was);
  }
  std::string text;
};

}  // namespace

std::string text_of_changes(const CheckpointFacts& facts, const std::filesystem::path& plan_of_run, const Plan& now,
                            const std::string& data) {
  Changes of_data;
  if (const auto was = facts.attributes.find("data"); was != facts.attributes.end()) of_data.compare("data", was->second, data);
  if (facts.plan_digest == digest_of(text_of(now))) return of_data.text;
  Changes changes;
  changes.compare("optimizer", name_of(facts.optimizer.kind), name_of(now.optimizer.kind));
  changes.compare("momentum", facts.optimizer.momentum, now.optimizer.momentum);
  changes.compare("weight decay", facts.optimizer.weight_decay, now.optimizer.weight_decay);
  changes.compare("average decay", facts.optimizer.average_decay, now.optimizer.average_decay);
  changes.compare("alignment", name_of(facts.alignment), name_of(now.alignment));
  const std::optional<Plan> before = plan_of(facts, plan_of_run);
  if (before) {
    changes.compare("model", before->model.name, now.model.name);
    changes.compare("devices", before->devices(), now.devices());
    changes.compare("mini-batch", before->mini_batch, now.mini_batch);
    changes.compare("micro-batch", before->micro_batch, now.micro_batch);
    changes.compare("time chunks", before->time_chunks, now.time_chunks);
  }
  if (changes.text.empty()) changes.text = "another plan";
  return of_data.text.empty() ? changes.text : of_data.text + ", " + changes.text;
}

}  // namespace millrace
