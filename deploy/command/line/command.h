// What the subcommands of `millrace` share: how one registers itself.
//
//   void add_train_command(CLI::App& app, Invocation& invocation);   // declares flags; sets invocation.run when chosen
//
// A subcommand's run returns the exit status or throws Error; main turns that into a message and a status.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace millrace {

struct Invocation {
  std::function<int()> run;
  bool json = false;  // the chosen subcommand's --json
};

void add_models_command(CLI::App& app, Invocation& invocation);
void add_devices_command(CLI::App& app, Invocation& invocation);
void add_plan_command(CLI::App& app, Invocation& invocation);
void add_study_command(CLI::App& app, Invocation& invocation);
void add_simulate_command(CLI::App& app, Invocation& invocation);
void add_train_command(CLI::App& app, Invocation& invocation);
void add_launch_command(CLI::App& app, Invocation& invocation);
void add_eval_command(CLI::App& app, Invocation& invocation);
void add_predict_command(CLI::App& app, Invocation& invocation);
void add_export_command(CLI::App& app, Invocation& invocation);
void add_tune_command(CLI::App& app, Invocation& invocation);
void add_profile_command(CLI::App& app, Invocation& invocation);
void add_rtl_command(CLI::App& app, Invocation& invocation);
void add_doctor_command(CLI::App& app, Invocation& invocation);
void add_completion_command(CLI::App& app, Invocation& invocation);

}  // namespace millrace
