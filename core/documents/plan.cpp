#include "core/documents/plan.h"

#include "core/base/files.h"
#include "core/documents/plan_fields.h"
#include "plan.pb.h"

namespace millrace {

Plan parse_plan(std::string_view text, std::string_view origin) {
  const text::Path document(origin, ErrorCode::kMalformed);
  documents::Plan message;
  text::parse_text(text, document, text::plan_steps(), message);
  // The model and the cluster inside have versions of their own.
  if (message.has_model()) text::migrate(*message.mutable_model(), text::Path(document, "model"), text::model_steps());
  if (message.has_cluster()) text::migrate(*message.mutable_cluster(), text::Path(document, "cluster"), text::cluster_steps());
  Plan plan;
  text::Codec<Plan>::read(message, plan, document);
  text::Codec<Plan>::check(plan, document);
  return plan;
}

std::string text_of(const Plan& plan) {
  documents::Plan message;
  message.set_version(text::current_version(text::plan_steps()));
  text::Codec<Plan>::write(plan, message);
  message.mutable_model()->set_version(text::current_version(text::model_steps()));
  message.mutable_cluster()->set_version(text::current_version(text::cluster_steps()));
  return text::print_text(message);
}

void save(const Plan& plan, const std::filesystem::path& path) { write_atomically(path, text_of(plan)); }

}  // namespace millrace
