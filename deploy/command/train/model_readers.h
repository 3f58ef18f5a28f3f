// The formats of other programs: `millrace import`, and which of their files --model and --init-from take.
//
//   know_foreign_models();                        // once, before a command runs
//   add_import_command(app, invocation);
//
// Where this build lacks a format's library, its files are still known, and the message says what to install.
#pragma once

namespace CLI {
class App;
}

namespace millrace {

struct Invocation;

void add_import_command(CLI::App& app, Invocation& invocation);
void know_foreign_models();

}  // namespace millrace
