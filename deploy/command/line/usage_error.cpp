#include "deploy/command/line/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace millrace {
namespace {

// The nearest name, or nothing: all options of a command are too many for one line.
std::string nearest(std::string_view given, const std::vector<std::string>& known) {
  const std::string hint = suggestion(given, known);
  return hint.starts_with("; did you mean") ? hint : "";
}

// Of the chosen command and of all above it, whose options it takes too.
std::vector<std::string> options_known_to(const CLI::App* command) {
  std::vector<std::string> names;
  for (; command != nullptr; command = command->get_parent())
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string complaint(const CLI::App& app, const CLI::App& chosen, const CLI::ParseError& error) {
  const bool no_command = &chosen == &app;
  std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  // What follows is not for this program to know; where another fault came first it was not looked at.
  const auto behind = std::ranges::find(unknown, "--");
  if (behind != unknown.end()) unknown.erase(behind, dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ? behind + 1 : unknown.end());
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word.front() == '-'; };
  const auto option = std::find_if(unknown.begin(), unknown.end(), is_option);
  if (option != unknown.end()) {
    const std::string name = option->substr(0, option->find('='));
    return fmt::format("\"{}\" is not one of its options{}", name, nearest(name, options_known_to(&chosen)));
  }
  if (!unknown.empty() && no_command)
    return fmt::format("\"{}\" is not one of its commands{}", unknown.front(), suggestion(unknown.front(), commands_of(app)));
  if (!unknown.empty()) return fmt::format("\"{}\" is one word too many", unknown.front());
  if (no_command && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return fmt::format("what to do is missing; one of {}", fmt::join(commands_of(app), ", "));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string_view text = error.what();  // "--model: 1 required TEXT missing", "--model: At Most 1 required but received 2"
    return fmt::format("{} {}", text.substr(0, text.find(':')), text.ends_with("missing") ? "needs a value" : "is given more than once");
  }
  // Options check what they are given themselves; only a flag leaves it to the library: "Could not convert: --json = maybe".
  if (const std::string_view text = error.what(); dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    const size_t name = text.find("--");
    const size_t equals = text.find(" = ", name);
    if (name != std::string_view::npos && equals != std::string_view::npos)
      return fmt::format("{0}: \"{1}\" is neither true nor false; write {0} alone for yes, {0}=false for no",
                         text.substr(name, equals - name), text.substr(equals + 3));
  }
  return error.what();
}

}  // namespace

std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* chosen = &app;
  std::string path = app.get_name();
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
    path += " " + chosen->get_name();
  }
  return fmt::format("{}: {}\nTry `{} --help`.", path, complaint(app, *chosen, error), path);
}

}  // namespace millrace
