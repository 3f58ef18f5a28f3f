// Fills a text's $NAMES$: for generated sources that stay readable as a whole.
//
//   filled("module $NAME$;", {{"NAME", "top"}});
//
// An unknown or unused name is a mistake of the program and stops it.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace millrace {

using TemplateValues = std::map<std::string, std::string, std::less<>>;

std::string filled(std::string_view text, const TemplateValues& values);

}  // namespace millrace
