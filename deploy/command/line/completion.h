// Scripts that let a shell complete the words of a command, made from the command's own description: whatever is declared
// on the CLI::App is completed, with nothing to keep in step by hand.
//
//   std::fputs(completion_script(app, Shell::kBash).c_str(), stdout);      // source <(millrace completion bash)
//
// Completed are subcommands at any depth, the options of the subcommand at hand (and of its parents where the app falls
// through), and values: models, devices, alignments and the like by their names (command_words.h), the choices of CLI::IsMember,
// folders for CLI::ExistingDirectory, nothing for numbers, files otherwise. Hidden options (empty group) stay hidden.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace millrace {

enum class Shell { kBash, kZsh, kFish };

// "bash", "zsh", "fish"; fails with kUsage on anything else.
Shell shell_named(std::string_view name);

// Ends in a newline. Borrows `app` for the call.
std::string completion_script(const CLI::App& app, Shell shell);

// Writes the script to standard output; returns the exit status 0.
int print_completion(const CLI::App& app, std::string_view shell);

}  // namespace millrace
