// Everything that can be typed after a command, read from its CLI::App: what completion.h turns into scripts. What the names of the
// app cannot say, such as which models there are, command_words.cpp knows by the option's name.
//
//   for (const CommandWords& command : words_of(app)) fmt::print("{}: {} options\n", command.path, command.options.size());
//
// Values only; nothing of the app is kept.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace millrace {

enum class ValueKind {
  kNone,  // a flag
  kAnyOf,
  kAnyOfOrFile,
  kFile,
  kFolder,
  kFree,  // a number or a text that nothing can guess
};

struct ValueWords {
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> choices;  // of kAnyOf and kAnyOfOrFile
};

struct OptionWords {
  std::vector<std::string> names;  // "--out", "-o"
  std::string help;                // one line
  ValueWords value;
};

struct NamedHelp {
  std::string name;
  std::string help;
};

struct CommandWords {
  std::string path;  // names from the top, separated by spaces; empty for the command itself
  std::vector<NamedHelp> subcommands;
  std::vector<OptionWords> options;
  std::vector<ValueWords> positionals;
};

// The command itself first, then its subcommands, each before its own.
std::vector<CommandWords> words_of(const CLI::App& app);

// Once parsed: "millrace plan --model vgg16 --cluster vc709x15", near enough to what was typed to type it again.
std::string typed_words(const CLI::App& command);

}  // namespace millrace
