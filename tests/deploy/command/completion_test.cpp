// The completion scripts, run by the shells they are for: what the user would see after pressing tab.
#include "deploy/command/line/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/error.h"
#include "deploy/command/line/command_words.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;

// A command like ours in small: nested subcommands, choices, folders, quotes that need care, something hidden.
class Completion : public ::testing::Test {
 protected:
  Completion() {
    app_.fallthrough();
    app_.add_option("--log-level", text_, "how much to say")->check(CLI::IsMember({"debug", "info"}));
    CLI::App* train = app_.add_subcommand("train", "train a network: 'soon' done [today]\nmore words");
    train->add_option("--alignment,-a", text_, "when weights change")->check(CLI::IsMember({"fpdeep", "flush", "stash"}));
    train->add_option("--out", text_, "folder of the run")->check(CLI::ExistingDirectory);
    train->add_option("--epochs", number_, "how long");
    train->add_flag("--json", flag_, "for scripts");
    train->add_flag("--secret", flag_, "not for people")->group("");
    app_.add_subcommand("tell", "speak")->add_option("shell", text_, "which")->check(CLI::IsMember({"bash", "zsh"}));
    CLI::App* show = app_.add_subcommand("show", "look");
    show->add_subcommand("plan", "the plan")->add_flag("--deep", flag_, "more");
    folder_ = std::filesystem::path(::testing::TempDir()) / ("millrace_completion_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "a_folder");
    std::ofstream(folder_ / "a_file.txt") << "x";
  }
  ~Completion() override { std::filesystem::remove_all(folder_); }

  std::string script_file(Shell shell) {
    const std::filesystem::path path = folder_ / "script";
    std::ofstream(path) << completion_script(app_, shell);
    return path;
  }

  // Runs a shell's command line in the test's folder and returns its lines.
  std::set<std::string> lines_of(const std::string& command) {
    std::set<std::string> lines;
    FILE* pipe = popen(("cd " + folder_.string() + " && " + command).c_str(), "r");
    std::array<char, 512> buffer{};
    while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
      std::string line(buffer.data());
      line.pop_back();
      lines.insert(line.substr(0, line.find('\t')));  // fish adds the description
    }
    EXPECT_EQ(pclose(pipe), 0) << command;
    return lines;
  }

  static bool has(const std::string& shell) { return std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) == 0; }

  // What bash offers for the last of these words.
  std::set<std::string> bash(const std::string& words) {
    return lines_of("bash -c 'source " + script_file(Shell::kBash) + "; COMP_WORDS=(" + words +
                    "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tool; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
  }
  std::set<std::string> fish(const std::string& line) {
    return lines_of("fish --no-config -c 'source " + script_file(Shell::kFish) + "; complete -C \"" + line + "\"'");
  }

  CLI::App app_{"a tool", "tool"};
  std::string text_;
  int number_ = 0;
  bool flag_ = false;
  std::filesystem::path folder_;
};

TEST_F(Completion, WordsComeFromTheApp) {
  const std::vector<CommandWords> commands = words_of(app_);
  std::vector<std::string> paths;
  for (const CommandWords& command : commands) paths.push_back(command.path);
  EXPECT_THAT(paths, ElementsAre("", "train", "tell", "show", "show plan"));
  const CommandWords& train = commands[1];
  std::vector<std::string> names;
  for (const OptionWords& option : train.options) names.push_back(option.names.front());
  // --log-level is the parent's, which falls through; --help is there once.
  EXPECT_THAT(names, ElementsAre("--help", "--alignment", "--out", "--epochs", "--json", "--log-level"));
  EXPECT_THAT(train.options[1].names, ElementsAre("--alignment", "-a"));
  EXPECT_THAT(train.options[1].value.choices, ElementsAre("fpdeep", "flush", "stash"));
  EXPECT_EQ(train.options[2].value.kind, ValueKind::kFolder);
  EXPECT_EQ(train.options[3].value.kind, ValueKind::kFree);
  EXPECT_EQ(train.options[4].value.kind, ValueKind::kNone);
  EXPECT_EQ(commands[0].subcommands[0].help, "train a network: 'soon' done [today]");
}

TEST_F(Completion, BashOffersWhatFits) {
  EXPECT_THAT(bash("tool t"), ElementsAre("tell", "train"));
  EXPECT_THAT(bash("tool train --a"), ElementsAre("--alignment"));
  EXPECT_THAT(bash("tool train --alignment f"), ElementsAre("flush", "fpdeep"));
  EXPECT_THAT(bash("tool train -a f"), ElementsAre("flush", "fpdeep"));
  EXPECT_THAT(bash("tool train --alignment = f"), ElementsAre("flush", "fpdeep"));
  EXPECT_THAT(bash("tool train --out a_"), ElementsAre("a_folder"));
  EXPECT_THAT(bash("tool train --epochs \"\""), ElementsAre(""));
  EXPECT_THAT(bash("tool tell \"\""), IsSupersetOf({"bash", "zsh"}));
  EXPECT_THAT(bash("tool show p"), ElementsAre("plan"));
  EXPECT_THAT(bash("tool show plan --d"), ElementsAre("--deep"));
  EXPECT_THAT(bash("tool train --s"), ElementsAre(""));  // hidden
  EXPECT_THAT(bash("tool train --log-level d"), ElementsAre("debug"));
}

TEST_F(Completion, BashTakesAValueForAValue) {
  // "train" is the value of --log-level, not the subcommand.
  EXPECT_THAT(bash("tool --log-level train t"), ElementsAre("tell", "train"));
}

TEST_F(Completion, FishOffersWhatFits) {
  if (!has("fish")) GTEST_SKIP() << "there is no fish here; the Debian package fish brings it";
  EXPECT_THAT(fish("tool t"), ElementsAre("tell", "train"));
  EXPECT_THAT(fish("tool train --a"), ElementsAre("--alignment"));
  EXPECT_THAT(fish("tool train --alignment f"), ElementsAre("flush", "fpdeep"));
  EXPECT_THAT(fish("tool train --out a_"), ElementsAre("a_folder/"));
  EXPECT_THAT(fish("tool tell "), ElementsAre("bash", "zsh"));
  EXPECT_THAT(fish("tool show plan --d"), ElementsAre("--deep"));
}

TEST_F(Completion, ZshReadsItsScript) {
  const std::string script = completion_script(app_, Shell::kZsh);
  EXPECT_TRUE(script.starts_with("#compdef tool\n"));
  EXPECT_NE(script.find(R"('--alignment[when weights change]:choice:(fpdeep flush stash)')"), std::string::npos);
  EXPECT_NE(script.find("_tool_show_plan()"), std::string::npos);
  EXPECT_EQ(script.find("--secret"), std::string::npos);
  if (!has("zsh")) GTEST_SKIP() << "there is no zsh here to read the script; the Debian package zsh brings it";
  EXPECT_THAT(lines_of("zsh -n " + script_file(Shell::kZsh) + " && echo good"), ElementsAre("good"));
}

TEST(ShellNamed, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(shell_named("zsh"), Shell::kZsh);
  try {
    shell_named("fis");
    FAIL() << "must throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("fish"));
  }
}

}  // namespace
}  // namespace millrace
