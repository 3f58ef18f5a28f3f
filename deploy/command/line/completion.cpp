#include "deploy/command/line/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/base/error.h"
#include "deploy/command/line/command_words.h"

namespace millrace {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) text.replace(at, what.size(), with);
  return text;
}

// 'text' for any shell; fish also reads \' inside single quotes, and the others take '\'' everywhere.
std::string in_quotes(std::string_view text) { return "'" + replaced(std::string(text), "'", R"('\'')") + "'"; }

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// A name for the functions that a script defines: millrace, my_tool.
std::string function_name(std::string_view text) {
  std::string name(text);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

// --- bash: the subcommand is found word by word, then the word before the cursor decides.

std::string bash_value(const ValueWords& value) {
  switch (value.kind) {
    case ValueKind::kAnyOf: return fmt::format("-W {}", in_quotes(joined(value.choices)));
    case ValueKind::kAnyOfOrFile: return fmt::format("-W {} -f", in_quotes(joined(value.choices)));
    case ValueKind::kFolder: return "-d";
    case ValueKind::kFile: return "-f";
    case ValueKind::kFree: return "-W ''";
    case ValueKind::kNone: return "";
  }
  return "";
}

std::string bash_script(const std::string& program, const std::vector<CommandWords>& commands) {
  std::string descend, values, words;
  for (const CommandWords& command : commands) {
    std::vector<std::string> offered;
    for (const NamedHelp& subcommand : command.subcommands) {
      const std::string below = command.path.empty() ? subcommand.name : command.path + " " + subcommand.name;
      descend += fmt::format("      {}) command={} ;;\n", in_quotes(command.path + "/" + subcommand.name), in_quotes(below));
      offered.push_back(subcommand.name);
    }
    for (const OptionWords& option : command.options) {
      offered.insert(offered.end(), option.names.begin(), option.names.end());
      if (option.value.kind == ValueKind::kNone) continue;
      std::string pattern;
      for (const std::string& name : option.names)
        pattern += fmt::format("{}{}", pattern.empty() ? "" : "|", in_quotes(command.path + "/" + name));
      descend += fmt::format("      {}) ((++i)) ;;\n", pattern);
      values += fmt::format("    {}) from=({}) ;;\n", pattern, bash_value(option.value));
    }
    std::string positional;
    for (const ValueWords& value : command.positionals) {
      if (value.kind == ValueKind::kAnyOf)
        offered.insert(offered.end(), value.choices.begin(), value.choices.end());
      else if (value.kind != ValueKind::kFree)
        positional += " " + bash_value(value);
    }
    words += fmt::format("      {}) from=(-W {}{}) ;;\n", in_quotes(command.path), in_quotes(joined(offered)), positional);
  }
  return fmt::format(R"(# bash completion of {0}: source <({0} completion bash)
_{1}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command='' i from=()
  # bash splits --name=value into three words
  if [[ $word == '=' ]]; then
    word=''
  elif [[ $previous == '=' ]] && ((COMP_CWORD > 1)); then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command/${{COMP_WORDS[i]}}" in
{2}    esac
  done
  case "$command/$previous" in
{3}    *) case "$command" in
{4}    esac ;;
  esac
  mapfile -t COMPREPLY < <(compgen "${{from[@]}}" -- "$word")
}}
complete -o filenames -F _{1} {0}
)",
                     program, function_name(program), descend, values, words);
}

// --- zsh: one function for each command, _arguments does the rest.

std::string zsh_escaped(std::string text) {
  for (const std::string_view special : {"\\", "[", "]", ":"}) text = replaced(std::move(text), special, "\\" + std::string(special));
  return text;
}

std::string zsh_value(const ValueWords& value) {
  switch (value.kind) {
    case ValueKind::kAnyOf: return fmt::format(":choice:({})", zsh_escaped(joined(value.choices)));
    case ValueKind::kAnyOfOrFile: return fmt::format(":choice or file:{{compadd {}; _files}}", joined(value.choices));
    case ValueKind::kFolder: return ":folder:_files -/";
    case ValueKind::kFile: return ":file:_files";
    case ValueKind::kFree: return ":value: ";
    case ValueKind::kNone: return "";
  }
  return "";
}

std::string zsh_script(const std::string& program, const std::vector<CommandWords>& commands) {
  const auto function_of = [&](std::string_view path) {
    return "_" + function_name(program) + (path.empty() ? "" : "_" + function_name(path));
  };
  std::string script = fmt::format("#compdef {0}\n# zsh completion of {0}: put this into a folder of $fpath as _{0}\n", program);
  for (const CommandWords& command : commands) {
    std::string arguments, subcommands, descend;
    for (const OptionWords& option : command.options)
      for (const std::string& name : option.names)
        arguments +=
            fmt::format(" \\\n    {}", in_quotes(fmt::format("{}[{}]{}", name, zsh_escaped(option.help), zsh_value(option.value))));
    for (size_t i = 0; i < command.positionals.size(); ++i)
      arguments += fmt::format(" \\\n    {}", in_quotes(fmt::format("{}:{}", i + 1, zsh_value(command.positionals[i]))));
    for (const NamedHelp& subcommand : command.subcommands) {
      const std::string path = command.path.empty() ? subcommand.name : command.path + " " + subcommand.name;
      subcommands += fmt::format("\n    {}", in_quotes(zsh_escaped(subcommand.name) + ":" + subcommand.help));
      descend += fmt::format("        {}) {} ;;\n", subcommand.name, function_of(path));
    }
    if (command.subcommands.empty()) {
      script += fmt::format("\n{}() {{\n  _arguments{}\n}}\n", function_of(command.path), arguments);
      continue;
    }
    script += fmt::format(R"(
{}() {{
  local state line
  local -a subcommands=({}
  )
  _arguments -C{} \
    '1: :->subcommand' '*:: :->rest'
  case $state in
    subcommand) _describe subcommand subcommands ;;
    rest)
      case $words[1] in
{}      esac ;;
  esac
}}
)",
                          function_of(command.path), subcommands, arguments, descend);
  }
  return script + fmt::format(R"(
if [[ $funcstack[1] == _{0} ]]; then
  _{0} "$@"
else
  compdef _{0} {1}
fi
)",
                              function_name(program), program);
}

// --- fish: one line for each word.

std::string fish_value(const ValueWords& value) {
  switch (value.kind) {
    case ValueKind::kAnyOf: return fmt::format(" -x -a {}", in_quotes(joined(value.choices)));
    case ValueKind::kAnyOfOrFile: return fmt::format(" -r -F -a {}", in_quotes(joined(value.choices)));
    case ValueKind::kFolder: return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kFile: return " -r -F";
    case ValueKind::kFree: return " -x";
    case ValueKind::kNone: return "";
  }
  return "";
}

std::string fish_script(const std::string& program, const std::vector<CommandWords>& commands) {
  std::string script = fmt::format("# fish completion of {0}: {0} completion fish > ~/.config/fish/completions/{0}.fish\n", program);
  for (const CommandWords& command : commands) {
    std::string condition;
    for (const std::string& name : CLI::detail::split(command.path, ' '))
      if (!name.empty()) condition += fmt::format("{}__fish_seen_subcommand_from {}", condition.empty() ? "" : "; and ", name);
    std::string deeper;
    for (const NamedHelp& subcommand : command.subcommands) deeper += " " + subcommand.name;
    const std::string here =
        deeper.empty() ? condition
                       : fmt::format("{}not __fish_seen_subcommand_from{}", condition.empty() ? "" : condition + "; and ", deeper);
    const std::string start = fmt::format("complete -c {} -n {}", program, in_quotes(here));

    bool files = false;
    for (const ValueWords& value : command.positionals)
      files = files || value.kind == ValueKind::kFile || value.kind == ValueKind::kFolder || value.kind == ValueKind::kAnyOfOrFile;
    if (!files) script += start + " -f\n";
    for (const ValueWords& value : command.positionals)
      if (value.kind == ValueKind::kAnyOf || value.kind == ValueKind::kAnyOfOrFile)
        script += fmt::format("{} -a {}\n", start, in_quotes(joined(value.choices)));
    for (const NamedHelp& subcommand : command.subcommands)
      script += fmt::format("{} -a {} -d {}\n", start, in_quotes(subcommand.name), in_quotes(subcommand.help));
    for (const OptionWords& option : command.options) {
      std::string line = start;
      for (const std::string& name : option.names) line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      script += fmt::format("{} -d {}{}\n", line, in_quotes(option.help), fish_value(option.value));
    }
  }
  return script;
}

}  // namespace

Shell shell_named(std::string_view name) {
  if (name == "bash") return Shell::kBash;
  if (name == "zsh") return Shell::kZsh;
  if (name == "fish") return Shell::kFish;
  fail(ErrorCode::kUsage, "no completion for the shell \"{}\"{}", name, suggestion(name, {"bash", "zsh", "fish"}));
}

std::string completion_script(const CLI::App& app, Shell shell) {
  const std::vector<CommandWords> commands = words_of(app);
  switch (shell) {
    case Shell::kBash: return bash_script(app.get_name(), commands);
    case Shell::kZsh: return zsh_script(app.get_name(), commands);
    case Shell::kFish: return fish_script(app.get_name(), commands);
  }
  return "";
}

int print_completion(const CLI::App& app, std::string_view shell) {
  const std::string script = completion_script(app, shell_named(shell));
  std::fputs(script.c_str(), stdout);
  return 0;
}

}  // namespace millrace
