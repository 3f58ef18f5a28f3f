#include "core/train/data_facts.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <variant>

#include "core/base/error.h"
#include "core/train/strict_json.h"

namespace millrace {
namespace {

const char* const kClasses = "classes";
const char* const kNormalisation = "normalisation";
const char* const kPictures = "pictures";

std::vector<double> numbers(const nlohmann::json& list, const std::string& where) {
  std::vector<double> values;
  if (!list.is_array()) fail(ErrorCode::kMalformed, "{}: {} is no list of numbers", where, text_of_json(list));
  for (const nlohmann::json& value : list) {
    if (!value.is_number()) fail(ErrorCode::kMalformed, "{}: {} is no number", where, text_of_json(value));
    values.push_back(value.get<double>());
  }
  return values;
}

}  // namespace

std::map<std::string, std::string> facts_of(const Dataset& train) {
  std::map<std::string, std::string> facts;
  if (!train.class_names.empty()) facts[kClasses] = nlohmann::json(train.class_names).dump();
  if (!train.normalisation.mean.empty())
    facts[kNormalisation] = nlohmann::json{{"mean", train.normalisation.mean}, {"stddev", train.normalisation.stddev}}.dump();
  if (const auto* files = std::get_if<std::shared_ptr<const PictureFiles>>(&train.images)) {
    const PictureForm& form = (*files)->form();
    facts[kPictures] = nlohmann::json{
        {"channels", form.shape.channels},
        {"height", form.shape.height},
        {"width", form.shape.width},
        {"fit", form.fit == PictureFit::kCrop ? "crop" : "stretch"},
        {"shorter",
         form.shorter}}.dump();
  }
  return facts;
}

DataFacts data_facts(const std::map<std::string, std::string>& attributes) {
  DataFacts facts;
  if (const auto found = attributes.find(kClasses); found != attributes.end()) {
    const nlohmann::json names = parse_strict_json(found->second, "the checkpoint's classes");
    if (!names.is_array()) fail(ErrorCode::kMalformed, "the checkpoint's classes are {}, a list was expected", text_of_json(names));
    for (const nlohmann::json& name : names) {
      if (!name.is_string()) fail(ErrorCode::kMalformed, "the checkpoint's classes: {} is no name", text_of_json(name));
      facts.class_names.push_back(name.get<std::string>());
    }
  }
  if (const auto found = attributes.find(kNormalisation); found != attributes.end()) {
    const std::string where = "the checkpoint's normalisation";
    const nlohmann::json document = parse_strict_json(found->second, where);
    JsonFields fields(document, where);
    facts.normalisation = Normalisation{numbers(fields.value("mean"), where), numbers(fields.value("stddev"), where)};
    fields.no_others();
  }
  if (const auto found = attributes.find(kPictures); found != attributes.end()) {
    const nlohmann::json document = parse_strict_json(found->second, "the checkpoint's pictures");
    JsonFields fields(document, "the checkpoint's pictures");
    constexpr int64_t kMostExtent = 4096;
    PictureForm form;
    form.shape.channels = fields.integer("channels", 1, 3);
    form.shape.height = fields.integer("height", 1, kMostExtent);
    form.shape.width = fields.integer("width", 1, kMostExtent);
    form.fit = fields.text("fit") == "crop" ? PictureFit::kCrop : PictureFit::kStretch;
    form.shorter = fields.integer("shorter", 0, 1 << 16);
    fields.no_others();
    facts.pictures = form;
  }
  return facts;
}

}  // namespace millrace
