#include "node/ring/together.h"

#include <algorithm>
#include <string>

namespace millrace {

void together(Agreement& agreement, std::string_view what, const std::function<void()>& body) {
  std::string problem;
  try {
    body();
  } catch (const Error& error) {
    problem = fmt::format("{} {}", static_cast<int>(error.code()), error.what());
  }
  const std::vector<std::string> all = agreement.gather(what, problem);
  const auto first = std::ranges::find_if(all, [](const std::string& one) { return !one.empty(); });
  const std::string shared = agreement.broadcast(what, first == all.end() ? std::string() : *first);
  if (shared.empty()) return;
  const size_t space = shared.find(' ');
  throw SharedError(static_cast<ErrorCode>(std::stoi(shared.substr(0, space))), shared.substr(space + 1));
}

bool anywhere(Agreement& agreement, std::string_view what, bool here) {
  const std::vector<std::string> all = agreement.gather(what, here ? "yes" : "");
  return agreement.broadcast(what, std::ranges::find(all, "yes") == all.end() ? "" : "yes") == "yes";
}

}  // namespace millrace
