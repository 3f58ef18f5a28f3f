// How documents of earlier versions become current ones: per kind, one step from each version to the next. See
// proto_text.h for the rules. All five formats are at version 1, so there is nothing to migrate from yet.
#include "core/documents/proto_text.h"

namespace millrace::text {

const MigrationSteps& model_steps() {
  static const MigrationSteps steps;
  return steps;
}

const MigrationSteps& cluster_steps() {
  static const MigrationSteps steps;
  return steps;
}

const MigrationSteps& plan_steps() {
  static const MigrationSteps steps;
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
