// What a checkpoint says about itself: manifest.json, the list of its files and where the training stood.
//
//   const CheckpointManifest manifest = parse_manifest(read_text(folder / kManifestName), "manifest.json");
//   fmt::print("step {}, seed {}\n", manifest.facts.step, manifest.facts.seed);
//
// The text opens with a digest of all the rest, so that a flipped bit anywhere in it is seen. It holds no time, no
// host and no number of ranks: the same training writes the same bytes. Sorted, parsed strictly, versioned.
//
//   {"digest": .., "format": "millrace-checkpoint", "version": 1, "step": .., "epoch": .., "samples_into_epoch": ..,
//    "seed": .., "alignment": "flush", "optimizer": {"kind": .., "momentum": .., "beta1": .., "beta2": ..,
//    "epsilon": .., "weight_decay": ..}, "model_digest": .., "plan_digest": .., "weights_digest": ..,
//    "attributes": {..}, "files": [{"name": .., "bytes": .., "digest": .., "tensors": {"conv1.weight": <digest>}}]}
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

inline constexpr int64_t kCheckpointVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kModelName = "model.textproto";
inline constexpr const char* kWeightsName = "weights.safetensors";
inline constexpr const char* kOptimizerName = "optimizer.safetensors";
inline constexpr const char* kPreviousWeightsName = "previous_weights.safetensors";

// Where the training stands: `step` updates are done and the next sample is number `samples_into_epoch` of the shuffled
// order of `epoch` (both from 0).
struct CheckpointFacts {
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t samples_into_epoch = 0;
  uint64_t seed = 0;
  Alignment alignment = Alignment::kFlush;
  OptimizerSettings optimizer;
  std::string model_digest;
  std::string plan_digest;
  std::map<std::string, std::string> attributes;  // what else a reader wants to find again, for example {"data", "digits"}
  bool operator==(const CheckpointFacts&) const = default;
};

struct CheckpointFile {
  std::string name;  // in the checkpoint's folder
  int64_t bytes = 0;
  std::string digest;
  std::map<std::string, std::string> tensors;  // name -> tensor_digest; none in files of other kinds
  bool operator==(const CheckpointFile&) const = default;
};

struct CheckpointManifest {
  CheckpointFacts facts;
  std::string weights_digest;
  std::vector<CheckpointFile> files;
  bool operator==(const CheckpointManifest&) const = default;

  // Null when the checkpoint has no such file.
  const CheckpointFile* find(std::string_view name) const;
};

std::string text_of(const CheckpointManifest& manifest);
// Fails naming `origin`: kMalformed when the text does not follow the format, kMismatch when it does not have its own
// digest (it was damaged or edited) or is of a newer version.
CheckpointManifest parse_manifest(std::string_view text, std::string_view origin);

}  // namespace millrace
