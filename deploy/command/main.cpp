// The `millrace` command. What it ends with: core/base/exit_status.h.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <system_error>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/base/exit_status.h"
#include "core/base/log.h"
#include "core/base/progress.h"
#include "deploy/command/line/command.h"
#include "deploy/command/line/standard_output.h"
#include "deploy/command/line/usage_error.h"
#include "deploy/command/train/model_readers.h"
#include "transport/mpi/mpi_session.h"

namespace {

constexpr const char* kFooter = R"(
Start here:
  millrace models                        the networks it knows
  millrace devices                       the boards and processors it plans for
  millrace plan --model vgg16 --cluster vc709x15 --explain
  millrace simulate --model vgg16 --cluster vc709x15
  millrace train --model digits-cnn --data digits --epochs 20 --out runs/digits
  millrace eval --checkpoint runs/digits
  millrace doctor                        what this machine can do, and what would add to it

Every command has --help with examples.

Exit status:
)";

std::string footer() {
  std::string text = kFooter;
  for (const millrace::ExitMeaning& row : millrace::kExitMeanings) text += fmt::format("  {:>3}  {}\n", row.status, row.meaning);
  return text;
}

// Where standard error is gone as well there is nobody left to tell.
void say(const std::string& message) { std::fputs((message + '\n').c_str(), stderr); }

// Under mpirun every rank reads the same command line, and one of them says what is wrong with it.
int report(const millrace::Error& error) {
  millrace::MpiSession::wait_for_first_rank();
  say(fmt::format("millrace: {}", error.what()));
  return millrace::exit_status_of(error.code());
}

int report(const CLI::ParseError& error, const CLI::App& app) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  millrace::MpiSession::wait_for_first_rank();
  say(millrace::usage_error_text(app, error));
  return millrace::kExitUsage;
}

int run(int argc, char** argv, millrace::OutputLoss& loss) {
  CLI::App app(
      "Millrace trains CNNs and RNNs as one deep pipeline over a ring of FPGAs and GPUs,\n"
      "plans that pipeline offline, and simulates it at cluster scale.",
      "millrace");
  app.footer(footer());
  app.set_version_flag("--version", std::string(millrace::kVersion));
  std::string log_level = "info";
  app.add_option("--log-level", log_level, "debug, info, warning, error, off [info]");
  bool no_progress = false;
  app.add_flag("--no-progress", no_progress, "no progress bars");
  app.require_subcommand(1);
  app.fallthrough();

  millrace::Invocation invocation;
  millrace::add_models_command(app, invocation);
  millrace::add_devices_command(app, invocation);
  millrace::add_plan_command(app, invocation);
  millrace::add_study_command(app, invocation);
  millrace::add_simulate_command(app, invocation);
  millrace::add_train_command(app, invocation);
  millrace::add_launch_command(app, invocation);
  millrace::add_eval_command(app, invocation);
  millrace::add_predict_command(app, invocation);
  millrace::add_export_command(app, invocation);
  millrace::add_import_command(app, invocation);
  millrace::know_foreign_models();
  millrace::add_tune_command(app, invocation);
  millrace::add_profile_command(app, invocation);
  millrace::add_rtl_command(app, invocation);
  millrace::add_doctor_command(app, invocation);
  millrace::add_completion_command(app, invocation);
  try {
    app.parse(argc, argv);
    millrace::log::set_level(log_level);
    if (no_progress) millrace::set_progress_mode(millrace::ProgressMode::kOff);
    return invocation.run();
  } catch (const CLI::ParseError& error) {
    return report(error, app);
  } catch (const millrace::Error& error) {
    loss.said = true;  // where it is about standard output
    return report(error);
  } catch (const std::bad_alloc&) {
    say("millrace: out of memory; use a smaller --micro-batch, or see --dry-run for what is needed");
    return millrace::kExitFailed;
  } catch (const std::system_error& error) {
    loss.reason = error.code().value();
    if (!millrace::output_was_lost()) say(fmt::format("millrace: {}", error.what()));
    return millrace::kExitFailed;
  } catch (const std::exception& error) {
    say(fmt::format("millrace: {}", error.what()));
    return millrace::kExitFailed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  millrace::occupy_standard_streams();
  // Where output and log go to one file or pipe, no line of the log comes within a line of the output.
  static_cast<void>(std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ));
  signal(SIGXFSZ, SIG_IGN);  // a file that must not grow: writing fails, and says so
  millrace::OutputLoss loss;
  const int status = run(argc, argv, loss);
  return millrace::status_with_output(status, loss);
}
