// Measures the convolutions of zoo models and merges the choices into a kernel table: how core/cpu/kernel_table.csv was
// made, on a quiet machine of each instruction set.
//
//   build/release/bin/tune_kernels --table core/cpu/kernel_table.csv --cases vgg16-cifar:8,vgg16-cifar:32,resnet18-cifar:32
//
// ONEDNN_MAX_CPU_ISA=AVX2 measures what a machine without AVX-512 would choose.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/cpu/tune.h"
#include "core/graph/zoo.h"

int main(int argc, char** argv) {
  CLI::App app{"Measures convolutions and merges the choices into a kernel table"};
  std::string path;
  std::vector<std::string> cases;
  int threads = 1;
  app.add_option("--table", path, "the table to extend, made when missing")->required();
  app.add_option("--cases", cases, "MODEL:MICRO_BATCH, several allowed")->delimiter(',')->required();
  app.add_option("--threads", threads, "threads to measure with");
  CLI11_PARSE(app, argc, argv);
  try {
    millrace::KernelTable table;
    if (std::filesystem::exists(path)) table = millrace::KernelTable::load(path);
    for (const std::string& text : cases) {
      const size_t colon = text.find(':');
      if (colon == std::string::npos) millrace::fail(millrace::ErrorCode::kUsage, "case \"{}\": expected MODEL:MICRO_BATCH", text);
      const millrace::Graph graph(millrace::zoo_model(text.substr(0, colon)));
      table.merge(millrace::tune(graph, std::stoll(text.substr(colon + 1)), threads, [&](const millrace::TuneProgress& progress) {
        fmt::print("{} {}/{} {}\n", text, progress.done, progress.total, progress.finding);
      }));
      table.save(path);
    }
    fmt::print("{}: {} shapes, digest {}\n", path, table.size(), table.digest());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
