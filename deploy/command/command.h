// What the subcommands of `millrace` share: how one registers itself, and the helpers behind their flags.
//
//   void add_train_command(CLI::App& app, Invocation& invocation);   // declares flags; sets invocation.run when chosen
//
// A subcommand's run returns the exit status or throws Error; main turns that into a message and a status.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

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

// "90s", "15m", "3h", "1h30m", or plain seconds. Fails with kUsage naming the flag.
double parse_duration(std::string_view text, std::string_view flag);
// "1.4 GB", "12.0 kB"
std::string bytes_text(int64_t bytes);

}  // namespace millrace
