// The `millrace` command. Exit status: 0 done, 1 failed, 2 wrong usage, 3 infeasible.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/progress.h"
#include "deploy/command/command.h"
#include "deploy/command/usage_error.h"
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

Every command has --help with examples. Exit status: 0 done, 1 failed, 2 wrong usage, 3 infeasible.
)";

// Under mpirun every rank reads the same command line, and one of them says what is wrong with it.
int report(const millrace::Error& error) {
  millrace::MpiSession::let_first_rank_speak();
  fmt::print(stderr, "millrace: {}\n", error.what());
  return millrace::exit_status_of(error.code());
}

int report(const CLI::ParseError& error, const CLI::App& app) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  millrace::MpiSession::let_first_rank_speak();
  fmt::print(stderr, "{}\n", millrace::usage_error_text(app, error));
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Millrace trains CNNs and RNNs as one deep pipeline over a ring of FPGAs and GPUs,\n"
      "plans that pipeline offline, and simulates it at cluster scale.",
      "millrace");
  app.footer(kFooter);
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
  millrace::add_eval_command(app, invocation);
  millrace::add_predict_command(app, invocation);
  millrace::add_export_command(app, invocation);
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
    return report(error);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "millrace: out of memory; use a smaller --micro-batch, or see --dry-run for what is needed\n");
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "millrace: {}\n", error.what());
    return 1;
  }
}
