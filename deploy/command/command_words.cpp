#include "deploy/command/command_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

namespace millrace {
namespace {

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// CLI11 names a value by its type and what its validators say: "TEXT:{sgd,adam}", "TEXT:FILE", "INT".
ValueWords value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}', open == std::string::npos ? 0 : open);
  if (open != std::string::npos && close != std::string::npos)
    return {ValueKind::kAnyOf, CLI::detail::split(type.substr(open + 1, close - open - 1), ',')};
  if (type.find("DIR") != std::string::npos) return {ValueKind::kFolder, {}};
  if (type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT")) return {ValueKind::kFree, {}};
  return {ValueKind::kFile, {}};
}

void add_options(const CLI::App& app, CommandWords& words) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (!option->nonpositional()) {
      words.positionals.push_back(value_of(*option));
      continue;
    }
    OptionWords entry;
    for (const std::string& name : option->get_lnames()) entry.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) entry.names.push_back("-" + name);
    const auto taken = [&](const OptionWords& other) { return other.names == entry.names; };  // --help of a parent
    if (std::any_of(words.options.begin(), words.options.end(), taken)) continue;
    entry.help = first_line(option->get_description());
    entry.value = value_of(*option);
    words.options.push_back(std::move(entry));
  }
}

void add_commands(const CLI::App& app, const std::string& path, std::vector<CommandWords>& commands) {
  CommandWords words;
  words.path = path;
  add_options(app, words);
  for (const CLI::App* parent = &app; parent->get_fallthrough() && parent->get_parent() != nullptr; parent = parent->get_parent()) {
    CommandWords inherited;
    inherited.options = std::move(words.options);
    add_options(*parent->get_parent(), inherited);
    words.options = std::move(inherited.options);
  }
  const auto visible = [](const CLI::App* subcommand) { return !subcommand->get_name().empty() && !subcommand->get_group().empty(); };
  for (const CLI::App* subcommand : app.get_subcommands(visible))
    words.subcommands.push_back({subcommand->get_name(), first_line(subcommand->get_description())});
  commands.push_back(std::move(words));
  for (const CLI::App* subcommand : app.get_subcommands(visible))
    add_commands(*subcommand, path.empty() ? subcommand->get_name() : path + " " + subcommand->get_name(), commands);
}

}  // namespace

std::vector<CommandWords> words_of(const CLI::App& app) {
  std::vector<CommandWords> commands;
  add_commands(app, "", commands);
  return commands;
}

std::string typed_words(const CLI::App& command) {
  std::string words = "millrace " + command.get_name();
  std::vector<const CLI::Option*> seen;
  for (const CLI::Option* option : command.parse_order()) {
    if (std::find(seen.begin(), seen.end(), option) != seen.end()) continue;
    seen.push_back(option);
    if (option->get_expected_max() == 0) {
      words += " " + option->get_name();
      continue;
    }
    for (const std::string& value : option->results()) words += " " + option->get_name() + " " + value;
  }
  return words;
}

}  // namespace millrace
