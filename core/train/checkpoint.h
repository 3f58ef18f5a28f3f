// Checkpoints: per layer and parameter, independent of ranks, plan and time; written so that a crash at any moment leaves
// either the whole of one or nothing that could be taken for one.
//
//   write_checkpoint(run / "checkpoints", content, job.keep_checkpoints);          // -> checkpoints/step-00001234
//   if (auto folder = newest_complete_checkpoint(run / "checkpoints")) content = read_checkpoint(*folder);
//   TensorMap weights = load_weights("pretrained.safetensors");                    // or a checkpoint, or a run
//
// A checkpoint is a folder:
//   manifest.json                  where the training stood; every file's size and digest (checkpoint_manifest.h)
//   model.textproto                the model, so that eval, predict and export need nothing else
//   weights.safetensors            parameters and statistics, named as PyTorch names them: "conv1.weight", "bn1.running_mean"
//   optimizer.safetensors          its slots, "conv1.weight#slot0", "conv1.weight#average"; of stateful layers "lstm.hidden#carried"
//   previous_weights.safetensors   in alignments that do not drain: the weights before the last update
// It is written as step-N.partial, flushed to the disk file by file, then renamed. Nothing with another name than
// step-N is ever read. The bytes depend on the content alone: equal trainings leave equal folders.
// Everything read is verified: a flipped bit fails with kMismatch naming file and, where it can be told, tensor.
// Limits: one writer per folder at a time; the content passes through memory whole.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/train/checkpoint_manifest.h"
#include "core/train/safetensors.h"

namespace millrace {

struct CheckpointContent {
  CheckpointFacts facts;
  TensorMap weights;
  TensorMap optimizer;
  TensorMap previous_weights;  // empty: none are stored
  std::string model_text;
  bool operator==(const CheckpointContent&) const = default;
};

// "conv1.weight#slot0"; "conv1.weight#average" for the one of the average.
std::string slot_name(const std::string& parameter, const OptimizerSettings& optimizer, int slot);
// "step-00001234"
std::string checkpoint_name(int64_t step);

// Returns the new folder. Afterwards, not before, the oldest of the checkpoints up to this step are removed until
// `keep_last` remain (0: all stay); those of later steps are left alone, and said. Leftovers of a crash are removed
// first. A checkpoint of the same step is replaced. When it cannot be written (a full disk), what was begun of it is
// removed, and all others stay.
std::filesystem::path write_checkpoint(const std::filesystem::path& root, const CheckpointContent& content, int64_t keep_last);

CheckpointContent read_checkpoint(const std::filesystem::path& folder);
// Verifies every file as read_checkpoint does, and keeps only what the manifest says.
CheckpointManifest verify_checkpoint(const std::filesystem::path& folder);

// The one of the highest step that verifies. Each damaged one passed over is a warning in the log. Nothing when there is
// none, or no such folder.
std::optional<std::filesystem::path> newest_complete_checkpoint(const std::filesystem::path& root);
// From what a person points at to a checkpoint: the checkpoint itself, a folder of checkpoints, or a run's folder.
// Fails with kNotFound.
std::filesystem::path locate_checkpoint(const std::filesystem::path& path);

// Where a training kept the average of its weights, that is what it made; the last weights are what it goes on from.
enum class WhichWeights { kAverage, kLast };
// locate_checkpoint and read_checkpoint, also of a run that is being trained: when the one found is removed meanwhile, a newer one.
CheckpointContent load_checkpoint(const std::filesystem::path& path, WhichWeights which = WhichWeights::kAverage);
// Weights (averages where there are some) and statistics alone, for --init-from: a .safetensors file, or what locate_checkpoint takes.
TensorMap load_weights(const std::filesystem::path& path);

}  // namespace millrace
