// Uses the installed libraries, headers and data: prints a zoo model's parameters, and fails where anything is amiss.
#include <cstdio>
#include <filesystem>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/documents/model.h"
#include "core/graph/graph.h"
#include "core/graph/zoo.h"

int main() {
  using namespace millrace;
  const Graph graph(zoo_model("vgg16"));
  std::printf("Millrace %.*s: vgg16 has %lld parameters\n", static_cast<int>(kVersion.size()), kVersion.data(),
              static_cast<long long>(graph.parameter_count()));
  if (graph.parameter_count() != 138'357'544) return 1;
  if (!std::filesystem::exists(std::filesystem::path(DATA_FOLDER) / "digits" / "README.md")) return 2;
  try {
    zoo_model("vgg61");
    return 3;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
}
