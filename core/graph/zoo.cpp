#include "core/graph/zoo.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/graph/model_readers.h"
#include "core/graph/zoo_families.h"

namespace millrace {

namespace {

const std::vector<ZooEntry>& entries() {
  static const std::vector<ZooEntry> all = [] {
    std::vector<ZooEntry> entries;
    for (const auto family : {small_family, alexnet_family, vgg_family, resnet_family, inception_family, recurrent_family}) {
      std::vector<ZooEntry> members = family();
      std::move(members.begin(), members.end(), std::back_inserter(entries));
    }
    return entries;
  }();
  return all;
}

const ZooEntry& entry(std::string_view name) {
  const auto found = std::find_if(entries().begin(), entries().end(), [&](const ZooEntry& known) { return known.name == name; });
  if (found == entries().end())
    fail(ErrorCode::kUsage, "no model of the zoo is called \"{}\" (a model of your own is given as PATH.textproto){}", name,
         suggestion(name, zoo_names()));
  return *found;
}

std::vector<std::pair<std::string, ModelReader>>& readers() {
  static std::vector<std::pair<std::string, ModelReader>> all;
  return all;
}

}  // namespace

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const ZooEntry& known : entries())
    if (known.listed) names.push_back(known.name);
  return names;
}

Model zoo_model(std::string_view name) {
  const ZooEntry& known = entry(name);
  return known.build(known.name);
}

std::string zoo_summary(std::string_view name) { return entry(name).summary; }

void add_model_reader(std::string ending, ModelReader read) { readers().emplace_back(std::move(ending), std::move(read)); }

Model find_model(std::string_view name_or_path) {
  for (const auto& [ending, read] : readers())
    if (name_or_path.ends_with(ending)) return read(std::filesystem::path(name_or_path));
  const bool is_path = name_or_path.ends_with(".textproto") || name_or_path.find('/') != std::string_view::npos;
  return is_path ? load_model(std::filesystem::path(name_or_path)) : zoo_model(name_or_path);
}

}  // namespace millrace
