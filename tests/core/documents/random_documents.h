// Random valid documents, every field of which takes ordinary and extreme values. They need not mean anything: layers
// read layers that do not fit, plans leave channels out.
//
//   std::mt19937_64 random(7);
//   const Plan plan = random_plan(random);
#pragma once

#include <random>

#include "core/documents/catalogue.h"
#include "core/documents/cluster.h"
#include "core/documents/job.h"
#include "core/documents/model.h"
#include "core/documents/plan.h"

namespace millrace {

Model random_model(std::mt19937_64& random);
Cluster random_cluster(std::mt19937_64& random);
Plan random_plan(std::mt19937_64& random);
Job random_job(std::mt19937_64& random);
Catalogue random_catalogue(std::mt19937_64& random);

}  // namespace millrace
