#include "core/train/best_checkpoint.h"

#include <fmt/format.h>

#include <sstream>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/train/evaluation_judge.h"

namespace millrace {
namespace {

constexpr const char* kBest = "best";

std::vector<std::filesystem::path> kept_folders(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::is_directory(root)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(root))
    if (entry.is_directory() && entry.path().filename().string().starts_with("step-") && entry.path().extension().empty())
      found.push_back(entry.path());
  return found;
}

}  // namespace

void mark_best(CheckpointContent& content, EvaluationMetric metric, double value) {
  content.facts.attributes[kBest] = fmt::format("{} {}", name_of(metric), value);
}

std::filesystem::path keep_best_checkpoint(const std::filesystem::path& root, const CheckpointContent& content) {
  const std::filesystem::path made = write_checkpoint(root, content, 0);
  for (const std::filesystem::path& other : kept_folders(root))
    if (other != made) std::filesystem::remove_all(other);
  return made;
}

std::optional<double> best_kept(const std::filesystem::path& root, EvaluationMetric metric) {
  std::optional<double> best;
  for (const std::filesystem::path& folder : kept_folders(root)) {
    std::string text;
    try {
      const CheckpointManifest manifest = verify_checkpoint(folder);
      const auto found = manifest.facts.attributes.find(kBest);
      if (found != manifest.facts.attributes.end()) text = found->second;
    } catch (const Error& error) {
      log::warning("{}: passed over: {}", folder.string(), error.what());
      continue;
    }
    std::istringstream words(text);
    std::string name;
    double value = 0;
    if (!(words >> name >> value) || name != name_of(metric)) continue;
    const bool better = !best || (metric == EvaluationMetric::kLoss ? value < *best : value > *best);
    if (better) best = value;
  }
  return best;
}

}  // namespace millrace
