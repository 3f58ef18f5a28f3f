// What a command line that cannot be read is told: the word, the nearest one that is known, and where to read on.
//
//   millrace train: "--modle" is not one of its options; did you mean "--model"?
//   Try `millrace train --help`.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace millrace {

// Both lines, without a final line break. For errors that are none (--help, --version), ask CLI::App::exit instead.
std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error);

}  // namespace millrace
