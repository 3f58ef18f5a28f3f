#include "deploy/command/line/command_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/graph/zoo.h"
#include "deploy/devices/device_registry.h"
#include "deploy/session/catalogue_registry.h"

namespace millrace {
namespace {

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

std::vector<std::string> device_names() {
  std::vector<std::string> names = shipped_catalogue().short_names();
  std::sort(names.begin(), names.end());
  return names;
}

// The catalogue's, and where something is computed also what computes it.
std::vector<std::string> kinds_of(const std::string& command) {
  std::vector<std::string> names = device_names();
  if (command == "train" || command == "eval" || command == "predict")
    for (std::string& kind : computing_kinds())
      if (std::ranges::find(names, kind) == names.end()) names.push_back(std::move(kind));
  return names;
}

// What an option or a positional of a command takes, where its own words do not say it.
ValueWords known_values(const std::string& command, const std::string& name) {
  if (name == "--model" || (command == "models" && name == "name")) return {ValueKind::kAnyOfOrFile, zoo_names()};
  if (name == "--cluster") return {ValueKind::kAnyOfOrFile, kinds_of(command)};
  if (name == "--device" || (command == "devices" && name == "name")) return {ValueKind::kAnyOf, device_names()};
  if (name == "--data") return {ValueKind::kAnyOf, {"digits", "fashion-mnist", "text", "speech", "synthetic:", "idx:", "cifar10:"}};
  if (name == "--gpus") return {ValueKind::kAnyOf, {"auto", "required", "off"}};
  if (name == "--deal") return {ValueKind::kAnyOf, {"auto", "blocks", "turns"}};
  if (name == "--links") return {ValueKind::kAnyOf, {"auto", "mpi", "nccl"}};
  if (name == "--accounting") return {ValueKind::kAnyOf, {"full", "fpdeep"}};
  if (name == "--keep-best") return {ValueKind::kAnyOf, {"loss", "accuracy"}};
  if (name == "--order") return {ValueKind::kAnyOf, {"given", "best"}};
  if (command == "plan" && name == "--replicas") return {ValueKind::kAnyOf, {"auto"}};
  if (name == "--topology") return {ValueKind::kAnyOf, {"1d", "1d,2d"}};
  if (command == "plan" && name == "--engine") return {ValueKind::kAnyOf, {"16x16x4096", "16x16x8192"}};
  if (command == "plan" && name == "--laps") return {ValueKind::kAnyOf, {"auto"}};
  if (name == "--engine") return {ValueKind::kAnyOf, {"sbe", "pe_chain"}};
  if (name == "--paper") return {ValueKind::kAnyOf, {"fpdeep", "bb-lstm", "farnn"}};
  return {};
}

// A help that is a list, or ends in one behind a colon, has the choices: "what a stage holds: 1f1b, stash, sum [1f1b]". Remarks in
// parentheses and the default do not count. Empty where anything else is among them.
std::vector<std::string> listed_choices(std::string help) {
  help = help.substr(0, help.find(" ["));
  help = help.substr(0, help.find(", or a list"));
  if (const size_t colon = help.rfind(": "); colon != std::string::npos) help = help.substr(colon + 2);
  for (size_t open = help.find(" ("); open != std::string::npos; open = help.find(" ("))
    help.erase(open, help.find(')', open) == std::string::npos ? std::string::npos : help.find(')', open) + 1 - open);
  if (const size_t last = help.rfind(" or "); last != std::string::npos) help.replace(last, 4, ", ");
  std::vector<std::string> choices;
  for (size_t begin = 0; begin <= help.size();) {
    const size_t end = std::min(help.find(", ", begin), help.size());
    choices.push_back(help.substr(begin, end - begin));
    begin = end + 2;
  }
  const auto one_word = [](const std::string& choice) {
    return !choice.empty() && std::all_of(choice.begin(), choice.end(),
                                          [](unsigned char c) { return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-'; });
  };
  if (choices.size() < 2 || !std::all_of(choices.begin(), choices.end(), one_word)) choices.clear();
  return choices;
}

// CLI11 names a value by its type and what its validators say: "TEXT:{sgd,adam}", "TEXT:FILE", "INT".
ValueWords value_of(const CLI::App& command, const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}', open == std::string::npos ? 0 : open);
  if (open != std::string::npos && close != std::string::npos)
    return {ValueKind::kAnyOf, CLI::detail::split(type.substr(open + 1, close - open - 1), ',')};
  if (type.find("DIR") != std::string::npos) return {ValueKind::kFolder, {}};
  if (type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT")) return {ValueKind::kFree, {}};
  if (ValueWords known = known_values(command.get_name(), option.get_name()); known.kind != ValueKind::kNone) return known;
  if (std::vector<std::string> choices = listed_choices(option.get_description()); !choices.empty())
    return {ValueKind::kAnyOf, std::move(choices)};
  return {ValueKind::kFile, {}};
}

void add_options(const CLI::App& app, CommandWords& words) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (!option->nonpositional()) {
      words.positionals.push_back(value_of(app, *option));
      continue;
    }
    OptionWords entry;
    for (const std::string& name : option->get_lnames()) entry.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) entry.names.push_back("-" + name);
    const auto taken = [&](const OptionWords& other) { return other.names == entry.names; };  // --help of a parent
    if (std::any_of(words.options.begin(), words.options.end(), taken)) continue;
    entry.help = first_line(option->get_description());
    entry.value = value_of(app, *option);
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
