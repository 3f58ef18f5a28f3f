#include "core/train/checkpoint_manifest.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/train/strict_json.h"

namespace millrace {
namespace {

constexpr std::string_view kFormat = "millrace-checkpoint";
// The digest is of the whole text with its own digits as zeros; being first, it has a fixed place.
constexpr std::string_view kOpening = "{\n  \"digest\": \"";
constexpr size_t kDigestDigits = 32;
constexpr std::array kKnownFiles = {kModelName, kWeightsName, kOptimizerName, kPreviousWeightsName};

std::string digest_without_itself(std::string_view text) {
  std::string zeroed(text);
  zeroed.replace(kOpening.size(), kDigestDigits, kDigestDigits, '0');
  return digest_of(zeroed);
}

bool is_digest(std::string_view text) {
  return text.size() == kDigestDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void check_digest(const std::string& digest, const std::string& where) {
  if (!is_digest(digest)) fail(ErrorCode::kMalformed, "{}: \"{}\" is not a digest of {} hexadecimal digits", where, digest, kDigestDigits);
}

// Names of enumerations fail with kUsage where a person typed them; here a file holds them.
template <typename Parse>
auto parsed_name(JsonFields& fields, const std::string& name, Parse parse) {
  const std::string text = fields.text(name);
  try {
    return parse(text);
  } catch (const Error& reason) {
    fail(ErrorCode::kMalformed, "{}: \"{}\": {}", fields.where(), name, reason.what());
  }
}

OptimizerSettings optimizer_settings_from(const nlohmann::json& value, const std::string& where) {
  JsonFields fields(value, where);
  OptimizerSettings settings;
  settings.kind = parsed_name(fields, "kind", optimizer_from);
  settings.momentum = fields.number("momentum");
  settings.beta1 = fields.number("beta1");
  settings.beta2 = fields.number("beta2");
  settings.epsilon = fields.number("epsilon");
  settings.weight_decay = fields.number("weight_decay");
  if (fields.has("average_decay")) settings.average_decay = fields.number("average_decay");
  fields.no_others();
  return settings;
}

CheckpointFile file_from(const nlohmann::json& value, const std::string& where) {
  JsonFields fields(value, where);
  CheckpointFile file;
  file.name = fields.text("name");
  // Only these: a name that came from a file never becomes a path elsewhere.
  if (std::ranges::find(kKnownFiles, file.name) == kKnownFiles.end())
    fail(ErrorCode::kMalformed, "{}: \"{}\" is no file of a checkpoint{}", where, file.name,
         suggestion(file.name, {kKnownFiles.begin(), kKnownFiles.end()}));
  file.bytes = fields.integer("bytes");
  file.digest = fields.text("digest");
  file.tensors = fields.texts("tensors");
  fields.no_others();
  check_digest(file.digest, where);
  for (const auto& entry : file.tensors) check_digest(entry.second, where + ": " + entry.first);
  return file;
}

std::vector<CheckpointFile> files_from(const nlohmann::json& value, const std::string& where) {
  if (!value.is_array()) fail(ErrorCode::kMalformed, "{}: \"files\" is {}, a list was expected", where, text_of_json(value));
  std::vector<CheckpointFile> files;
  std::set<std::string> names;
  for (const nlohmann::json& item : value) {
    files.push_back(file_from(item, where + ": \"files\"[" + std::to_string(files.size()) + "]"));
    if (!names.insert(files.back().name).second) fail(ErrorCode::kMalformed, "{}: the file {} is listed twice", where, files.back().name);
  }
  for (const char* needed : {kModelName, kWeightsName, kOptimizerName})
    if (!names.contains(needed)) fail(ErrorCode::kMalformed, "{}: the file {} is not listed", where, needed);
  return files;
}

}  // namespace

const CheckpointFile* CheckpointManifest::find(std::string_view name) const {
  const auto found = std::ranges::find(files, name, &CheckpointFile::name);
  return found == files.end() ? nullptr : &*found;
}

std::string text_of(const CheckpointManifest& manifest) {
  const CheckpointFacts& facts = manifest.facts;
  nlohmann::ordered_json document;
  document["digest"] = std::string(kDigestDigits, '0');
  document["format"] = kFormat;
  document["version"] = kCheckpointVersion;
  document["step"] = facts.step;
  document["epoch"] = facts.epoch;
  document["samples_into_epoch"] = facts.samples_into_epoch;
  document["seed"] = facts.seed;
  document["alignment"] = name_of(facts.alignment);
  const OptimizerSettings& optimizer = facts.optimizer;
  document["optimizer"] = {{"kind", name_of(optimizer.kind)}, {"momentum", optimizer.momentum}, {"beta1", optimizer.beta1},
                           {"beta2", optimizer.beta2},        {"epsilon", optimizer.epsilon},   {"weight_decay", optimizer.weight_decay}};
  // Left out where there is none, as in checkpoints of before.
  if (optimizer.averages()) document["optimizer"]["average_decay"] = optimizer.average_decay;
  document["model_digest"] = facts.model_digest;
  document["plan_digest"] = facts.plan_digest;
  document["weights_digest"] = manifest.weights_digest;
  document["attributes"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : facts.attributes) document["attributes"][name] = value;
  document["files"] = nlohmann::ordered_json::array();
  for (const CheckpointFile& file : manifest.files) {
    nlohmann::ordered_json tensors = nlohmann::ordered_json::object();
    for (const auto& [name, digest] : file.tensors) tensors[name] = digest;
    document["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"digest", file.digest}, {"tensors", tensors}});
  }

  std::string text;
  try {
    text = document.dump(2) + "\n";
  } catch (const nlohmann::json::exception& reason) {
    fail(ErrorCode::kMalformed, "a checkpoint's tensor name or attribute is not valid UTF-8: {}", reason.what());
  }
  MILLRACE_CHECK(text.starts_with(kOpening), "a manifest opens with its digest: {}", text.substr(0, kOpening.size()));
  text.replace(kOpening.size(), kDigestDigits, digest_of(text));
  return text;
}

CheckpointManifest parse_manifest(std::string_view text, std::string_view origin) {
  const std::string where(origin);
  if (!text.starts_with(kOpening) || !is_digest(text.substr(kOpening.size()).substr(0, kDigestDigits)))
    fail(ErrorCode::kMalformed, "{}: does not open with its digest; it is damaged, or no checkpoint's manifest", where);
  const std::string_view stated = text.substr(kOpening.size(), kDigestDigits);
  if (const std::string found = digest_without_itself(text); found != stated)
    fail(ErrorCode::kMismatch, "{}: has the digest {}, states {}; it was damaged or edited, use another checkpoint", where, found, stated);

  const nlohmann::json document = parse_strict_json(text, origin);
  JsonFields fields(document, where);
  fields.value("digest");
  if (const std::string format = fields.text("format"); format != kFormat)
    fail(ErrorCode::kMalformed, "{}: \"format\" is \"{}\", \"{}\" was expected", where, format, kFormat);
  if (const int64_t version = fields.integer("version", 1); version != kCheckpointVersion)
    fail(ErrorCode::kMismatch, "{}: is of version {}, this build reads {}; use a newer Millrace", where, version, kCheckpointVersion);

  CheckpointManifest manifest;
  CheckpointFacts& facts = manifest.facts;
  facts.step = fields.integer("step");
  facts.epoch = fields.integer("epoch");
  facts.samples_into_epoch = fields.integer("samples_into_epoch");
  facts.seed = fields.unsigned_integer("seed");
  facts.alignment = parsed_name(fields, "alignment", alignment_from);
  facts.optimizer = optimizer_settings_from(fields.value("optimizer"), where + ": \"optimizer\"");
  facts.model_digest = fields.text("model_digest");
  facts.plan_digest = fields.text("plan_digest");
  facts.attributes = fields.texts("attributes");
  manifest.weights_digest = fields.text("weights_digest");
  check_digest(manifest.weights_digest, where + ": \"weights_digest\"");
  manifest.files = files_from(fields.value("files"), where);
  fields.no_others();
  return manifest;
}

}  // namespace millrace
