#include "core/train/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/train/weights_digest.h"
#include "core/train/weights_readers.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kReplaced = ".replaced";  // only where folders cannot be exchanged in one step

// "step-00001234" -> 1234; nothing for any other name, so that only names we write are ever taken or removed.
std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t step = -1;
  const auto [end, reason] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (reason != std::errc() || end != digits.data() + digits.size() || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

bool is_leftover(std::string_view name) {
  for (const std::string_view suffix : {kPartial, kReplaced})
    if (name.ends_with(suffix) && step_of(name.substr(0, name.size() - suffix.size()))) return true;
  return false;
}

std::vector<fs::path> folders_in(const fs::path& root) {
  std::error_code reason;
  std::vector<fs::path> folders;
  for (fs::directory_iterator entry(root, reason), end; !reason && entry != end; entry.increment(reason)) {
    std::error_code gone;
    if (entry->is_directory(gone)) folders.push_back(entry->path());
  }
  if (reason && reason != std::errc::no_such_file_or_directory)
    fail(ErrorCode::kIo, "{}: cannot list the checkpoints: {}", root.string(), reason.message());
  return folders;
}

// Whole as far as the name tells.
std::map<int64_t, fs::path> checkpoints_in(const fs::path& root) {
  std::map<int64_t, fs::path> checkpoints;
  for (const fs::path& folder : folders_in(root))
    if (const auto step = step_of(folder.filename().string())) checkpoints.emplace(*step, folder);
  return checkpoints;
}

void remove_folder(const fs::path& folder) {
  std::error_code reason;
  fs::remove_all(folder, reason);
  if (reason) fail(ErrorCode::kIo, "{}: cannot remove the folder: {}", folder.string(), reason.message());
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code reason;
  fs::rename(from, to, reason);
  if (reason) fail(ErrorCode::kIo, "{}: cannot rename it to {}: {}", from.string(), to.string(), reason.message());
}

void remove_leftovers(const fs::path& root) {
  for (const fs::path& folder : folders_in(root)) {
    if (!is_leftover(folder.filename().string())) continue;
    log::info("{}: left half-done by a crash, removed", folder.string());
    remove_folder(folder);
  }
}

fs::path with_suffix(const fs::path& folder, std::string_view suffix) { return folder.string() + std::string(suffix); }

// A crash halfway through a removal must leave nothing that looks whole: first the name goes, then the files.
void remove_checkpoint(const fs::path& folder) {
  rename_folder(folder, with_suffix(folder, kPartial));
  remove_folder(with_suffix(folder, kPartial));
}

// Puts the finished `partial` in the place of `folder`. Where a checkpoint of that step exists already the two change
// places in one step, so that there is never a moment without either.
void put_in_place(const fs::path& partial, const fs::path& folder) {
  if (!fs::exists(folder)) return rename_folder(partial, folder);
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) return remove_folder(partial);
  if (errno != EINVAL && errno != ENOSYS)
    fail(ErrorCode::kIo, "{}: cannot take the place of {}: {}", partial.string(), folder.string(), std::strerror(errno));
  // Some network file systems cannot exchange. A crash between these two renames loses this step's checkpoint only.
  const fs::path replaced = with_suffix(folder, kReplaced);
  rename_folder(folder, replaced);
  rename_folder(partial, folder);
  remove_folder(replaced);
}

void remove_oldest(const fs::path& root, int64_t newest_step, int64_t keep_last) {
  std::map<int64_t, fs::path> checkpoints = checkpoints_in(root);
  for (auto later = checkpoints.upper_bound(newest_step); later != checkpoints.end(); later = checkpoints.erase(later))
    log::warning("{}: is of a later step than the one just written, of another course of this training; it stays, remove it by hand",
                 later->second.string());
  if (keep_last == 0) return;
  while (std::cmp_greater(checkpoints.size(), keep_last)) {
    remove_checkpoint(checkpoints.begin()->second);
    checkpoints.erase(checkpoints.begin());
  }
}

// What a disk that is full holds of a checkpoint is of no use, and in the way.
class PartialFolder {
 public:
  explicit PartialFolder(fs::path path) : path_(std::move(path)) { make_folders(path_); }
  ~PartialFolder() {
    std::error_code reason;
    if (!path_.empty()) fs::remove_all(path_, reason);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  const fs::path& path() const { return path_; }
  void complete() { path_.clear(); }

 private:
  fs::path path_;
};

CheckpointFile write_file(const fs::path& folder, const char* name, std::span<const std::byte> bytes) {
  write_atomically(folder / name, bytes);
  return {name, static_cast<int64_t>(bytes.size()), digest_of(bytes), {}};
}

CheckpointFile write_tensors(const fs::path& folder, const char* name, const TensorMap& tensors) {
  // "pt": what loaders in the PyTorch world expect to find.
  CheckpointFile file = write_file(folder, name, encode_safetensors({tensors, {{"format", "pt"}}}));
  file.tensors = tensor_digests(tensors);
  return file;
}

// Which tensors of a damaged file differ from what the manifest states, as far as it can still be taken apart.
std::string damage_in(std::span<const std::byte> bytes, const CheckpointFile& stated, const std::string& origin) {
  if (stated.tensors.empty()) return "";
  std::string damaged;
  try {
    const auto found = tensor_digests(decode_safetensors(bytes, origin).tensors);
    for (const auto& [name, digest] : stated.tensors) {
      const auto tensor = found.find(name);
      if (tensor == found.end() || tensor->second != digest) damaged += fmt::format("{}tensor {}", damaged.empty() ? "" : ", ", name);
    }
  } catch (const Error&) {
    return " in its header";
  }
  return damaged.empty() ? " in its header" : " in " + damaged;
}

std::vector<std::byte> verified_bytes(const fs::path& folder, const CheckpointFile& stated) {
  const fs::path path = folder / stated.name;
  std::vector<std::byte> bytes = read_bytes(path);
  if (!std::cmp_equal(bytes.size(), stated.bytes))
    fail(ErrorCode::kMismatch, "{}: {} bytes, the manifest states {}; the file is damaged, use another checkpoint", path.string(),
         bytes.size(), stated.bytes);
  if (digest_of(bytes) != stated.digest)
    fail(ErrorCode::kMismatch, "{}: damaged{}: its digest is not the one in the manifest; use another checkpoint", path.string(),
         damage_in(bytes, stated, path.string()));
  return bytes;
}

CheckpointManifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  return parse_manifest(read_text(path), path.string());
}

// None when the checkpoint has no such file.
TensorMap read_tensors(const fs::path& folder, const CheckpointManifest& manifest, const char* name) {
  const CheckpointFile* file = manifest.find(name);
  if (file == nullptr) return {};
  return decode_safetensors(verified_bytes(folder, *file), (folder / name).string()).tensors;
}

TensorMap read_weights(const fs::path& folder, const CheckpointManifest& manifest) {
  TensorMap weights = read_tensors(folder, manifest, kWeightsName);
  if (const std::string found = weights_digest(weights); found != manifest.weights_digest)
    fail(ErrorCode::kMismatch, "{}: the weights have the digest {}, the manifest states {}; use another checkpoint", folder.string(), found,
         manifest.weights_digest);
  return weights;
}

// How often a reader begins again because the training that writes checkpoints has removed what was being read.
constexpr int kMostTries = 100;

// What `read` finds in the checkpoint that `path` stands for. A training that goes on there removes old ones, perhaps the one that
// is being read: then there is a newer one.
template <typename Read>
auto of_newest(const fs::path& path, Read read) {
  for (int tries = 1;; ++tries) {
    const fs::path folder = locate_checkpoint(path);
    try {
      return read(folder);
    } catch (const Error&) {
      if (tries == kMostTries || fs::exists(folder / kManifestName)) throw;
    }
  }
}

// Its slot holds average - weight (core/device/optimizer_math.h).
TensorMap averages_of(TensorMap weights, const TensorMap& slots, const OptimizerSettings& optimizer) {
  if (!optimizer.averages()) return weights;
  for (auto& [name, tensor] : weights) {
    const auto slot = slots.find(slot_name(name, optimizer, optimizer.kind_slots()));
    if (slot == slots.end()) continue;  // statistics, and what is frozen
    std::vector<double> values(to_size(tensor.elements())), offsets(values.size());
    copy_values(tensor, std::span<double>(values), name);
    copy_values(slot->second, std::span<double>(offsets), slot->first);
    for (size_t i = 0; i < values.size(); ++i) values[i] += offsets[i];
    if (tensor.type == StoredType::kF64) {
      tensor = host_tensor(tensor.dimensions, std::span<const double>(values));
    } else {
      const std::vector<float> narrow(values.begin(), values.end());
      tensor = host_tensor(tensor.dimensions, std::span<const float>(narrow));
    }
  }
  return weights;
}

std::vector<std::pair<std::string, WeightsReader>>& weights_readers() {
  static std::vector<std::pair<std::string, WeightsReader>> all;
  return all;
}

}  // namespace

std::string slot_name(const std::string& parameter, const OptimizerSettings& optimizer, int slot) {
  return slot < optimizer.kind_slots() ? fmt::format("{}#slot{}", parameter, slot) : parameter + "#average";
}
std::string checkpoint_name(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

fs::path write_checkpoint(const fs::path& root, const CheckpointContent& content, int64_t keep_last) {
  MILLRACE_CHECK(content.facts.step >= 0 && keep_last >= 0, "step {}, keep {}", content.facts.step, keep_last);
  make_folders(root);
  sync_to_disk(fs::absolute(root).parent_path());
  remove_leftovers(root);
  const fs::path folder = root / checkpoint_name(content.facts.step);
  PartialFolder partial_folder(with_suffix(folder, kPartial));
  const fs::path partial = partial_folder.path();

  CheckpointManifest manifest{content.facts, weights_digest(content.weights), {}};
  manifest.files.push_back(write_file(partial, kModelName, std::as_bytes(std::span(content.model_text))));
  manifest.files.push_back(write_tensors(partial, kWeightsName, content.weights));
  manifest.files.push_back(write_tensors(partial, kOptimizerName, content.optimizer));
  if (!content.previous_weights.empty()) manifest.files.push_back(write_tensors(partial, kPreviousWeightsName, content.previous_weights));
  write_atomically(partial / kManifestName, text_of(manifest));

  put_in_place(partial, folder);
  partial_folder.complete();
  sync_to_disk(root);
  remove_oldest(root, content.facts.step, keep_last);
  return folder;
}

CheckpointContent read_checkpoint(const fs::path& folder) {
  const CheckpointManifest manifest = read_manifest(folder);
  CheckpointContent content;
  content.facts = manifest.facts;
  content.weights = read_weights(folder, manifest);
  content.optimizer = read_tensors(folder, manifest, kOptimizerName);
  content.previous_weights = read_tensors(folder, manifest, kPreviousWeightsName);
  const std::vector<std::byte> model = verified_bytes(folder, *manifest.find(kModelName));
  content.model_text.assign(reinterpret_cast<const char*>(model.data()), model.size());
  return content;
}

CheckpointManifest verify_checkpoint(const fs::path& folder) {
  CheckpointManifest manifest = read_manifest(folder);
  for (const CheckpointFile& file : manifest.files) verified_bytes(folder, file);
  return manifest;
}

std::optional<fs::path> newest_complete_checkpoint(const fs::path& root) {
  std::map<int64_t, fs::path> checkpoints = checkpoints_in(root);
  int tries = 0;
  while (!checkpoints.empty()) {
    const auto newest = std::prev(checkpoints.end());
    try {
      const CheckpointManifest manifest = verify_checkpoint(newest->second);
      if (manifest.facts.step != newest->first)
        fail(ErrorCode::kMismatch, "the manifest states step {}; was the folder renamed?", manifest.facts.step);
      return newest->second;
    } catch (const Error& reason) {
      if (!fs::exists(newest->second)) {  // a training goes on there, and has newer ones by now
        if (++tries == kMostTries)
          fail(ErrorCode::kUnavailable, "{}: checkpoints are replaced faster than they can be read; keep more of them (train --keep N)",
               root.string());
        checkpoints = checkpoints_in(root);
        continue;
      }
      log::warning("checkpoint {} is passed over: {}", newest->second.string(), reason.what());
    }
    checkpoints.erase(newest);
  }
  return std::nullopt;
}

fs::path locate_checkpoint(const fs::path& path) {
  if (fs::exists(path / kManifestName)) return path;
  for (const fs::path& root : {path, path / "checkpoints"})
    if (auto newest = newest_complete_checkpoint(root)) return *newest;
  fail(ErrorCode::kNotFound, "{}: holds no complete checkpoint; name a folder step-N, one that holds such folders, or a run's folder",
       path.string());
}

CheckpointContent load_checkpoint(const fs::path& path, WhichWeights which) {
  CheckpointContent content = of_newest(path, [](const fs::path& folder) { return read_checkpoint(folder); });
  if (which == WhichWeights::kAverage)
    content.weights = averages_of(std::move(content.weights), content.optimizer, content.facts.optimizer);
  return content;
}

void add_weights_reader(std::string ending, WeightsReader read) { weights_readers().emplace_back(std::move(ending), std::move(read)); }

TensorMap load_weights(const fs::path& path) {
  if (!fs::exists(path)) fail(ErrorCode::kNotFound, "{}: no such file or folder to take weights from", path.string());
  for (const auto& [ending, read] : weights_readers())
    if (path.string().ends_with(ending) && !fs::is_directory(path)) return read(path);
  if (!fs::is_directory(path)) return load_safetensors(path).tensors;
  return of_newest(path, [](const fs::path& folder) {
    const CheckpointManifest manifest = read_manifest(folder);
    TensorMap weights = read_weights(folder, manifest);
    if (!manifest.facts.optimizer.averages()) return weights;
    return averages_of(std::move(weights), read_tensors(folder, manifest, kOptimizerName), manifest.facts.optimizer);
  });
}

}  // namespace millrace
