// What a loader reads of a data set, images and sequences alike, brought to the input of a network.
//
//   Loader loader(sample_source(data.train, adapted.transform, job.augmentation, job.seed), training_order(data.train, job.seed, cut));
//
// A sequence's values lie where the network wants them: {features, steps, 1} or {1, steps, features}; what lies behind its last
// step is zero. The data set is borrowed and must outlive the source. Fails with kUsage for augmentation of sequences.
#pragma once

#include <cstdint>

#include "core/data/dataset.h"
#include "core/data/loader.h"
#include "core/data/sampler.h"
#include "core/documents/job.h"
#include "core/graph/adapt.h"

namespace millrace {

SampleSource sample_source(const Dataset& data, const DataTransform& transform, const Augmentation& augmentation = {}, uint64_t seed = 0);

// The order that suits the data: streams where it flows on, buckets where lengths differ, else a shuffle.
BatchSampler training_order(const Dataset& data, uint64_t seed, const BatchCut& cut);

}  // namespace millrace
