// `millrace models`, `doctor` and `completion`: what is known, what this machine can do, and the shell's help.
#include <CLI/CLI.hpp>
#include <memory>

#include "deploy/command/information/doctor_command.h"
#include "deploy/command/information/models_command.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/completion.h"
#include "deploy/command/line/flag_checks.h"

namespace millrace {

void add_models_command(CLI::App& app, Invocation& invocation) {
  struct Flags {
    std::string name;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("models", "the networks Millrace knows, or one of them layer by layer");
  command->footer("\nExamples:\n  millrace models\n  millrace models vgg16\n  millrace models lenet.textproto --json\n");
  command->add_option("name", flags->name, "a name of the zoo, or PATH.textproto");
  command->add_flag("--json", flags->json, "JSON on standard output");
  command->callback([flags, &invocation] {
    invocation.json = flags->json;
    invocation.run = [flags] { return flags->name.empty() ? list_models(flags->json) : show_model(flags->name, flags->json); };
  });
}

void add_doctor_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand("doctor", "what this machine has, and what would add to it");
  command->footer(
      "\nExamples:\n  millrace doctor\n  millrace doctor --json\n  millrace doctor --measure --catalogue-out here.textproto\n"
      "  millrace doctor --measure --model vgg16-cifar --micro-batch 8,32 --catalogue-out here.textproto\n");
  command->add_flag("--measure", options->measure, "measure processor and GPU for the cost model");
  not_empty(command->add_option("--model", options->model, "with --measure: each convolution of this model by itself"));
  whole(command->add_option("--micro-batch", options->micro_batches, "with --model: one or several: 8,32 [1,8]")->delimiter(','), 1);
  not_empty(command->add_option("--catalogue-out", options->catalogue_out, "write what was measured as devices of a catalogue"));
  command->add_flag("--json", options->json, "JSON on standard output");
  command->callback([options, &invocation] {
    invocation.json = options->json;
    invocation.run = [options] { return doctor(*options); };
  });
}

void add_completion_command(CLI::App& app, Invocation& invocation) {
  auto shell = std::make_shared<std::string>("bash");
  CLI::App* command = app.add_subcommand("completion", "a script that lets the shell complete millrace's words");
  command->footer(
      "\nExamples:\n  source <(millrace completion bash)\n  millrace completion fish > ~/.config/fish/completions/millrace.fish\n");
  command->add_option("shell", *shell, "bash, zsh or fish [bash]");
  command->callback([shell, &app, &invocation] { invocation.run = [shell, &app] { return print_completion(app, *shell); }; });
}

}  // namespace millrace
