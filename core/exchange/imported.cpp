#include "core/exchange/imported.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/train/checkpoint.h"

namespace millrace {

void write_imported(const Imported& imported, const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (fs::exists(folder)) fail(ErrorCode::kUsage, "{} is there already; choose another --out", folder.string());
  CheckpointContent content;
  content.weights = imported.weights;
  content.model_text = text_of(imported.model);
  content.facts.model_digest = digest_of(content.model_text);
  content.facts.attributes = {{"imported", imported.source}};
  // Written beside, then put in place: whoever finds the folder finds all of it.
  const fs::path beside = fs::path(folder.string() + ".partial");
  fs::remove_all(beside);
  const fs::path written = write_checkpoint(beside, content, 0);
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const ImportedTensor& one : imported.tensors)
    tensors.push_back({{"tensor", one.tensor},
                       {"source", one.source},
                       {"transform", one.transform},
                       {"shape", imported.weights.at(one.tensor).dimensions}});
  const nlohmann::ordered_json record = {
      {"source", imported.source}, {"model", imported.model.name}, {"tensors", tensors}, {"notes", imported.notes}};
  write_atomically(written / "import.json", record.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  if (folder.has_parent_path()) make_folders(folder.parent_path());
  fs::rename(written, folder);
  fs::remove_all(beside);
}

}  // namespace millrace
