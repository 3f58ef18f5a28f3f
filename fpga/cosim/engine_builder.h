// Builds the generated engines of a shard into a shared library with Verilator and the machine's C++ compiler, once: the
// library lies in a cache under the digest of everything that goes into it, and is found there the next time.
//
//   const BuiltEngine built = build_library(library_of({engine, engine_memories(engine, shape)}), {});
//   void* handle = dlopen(built.engine_file.c_str(), RTLD_NOW | RTLD_LOCAL);       // engine_library.h says what it offers
//
// Takes seconds to minutes, by the multipliers; the first build of a cache compiles Verilator's own sources for the others, too. Log
// lines say what is built and how long it took. Several processes that want the same library wait for the one that builds it. What goes
// wrong is left in the cache with its log.
// Fails with kUnavailable where Verilator is missing, naming the package, or where the build fails, naming the log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fpga/common/rtl/rtl_modules.h"
#include "fpga/cosim/harness_sources.h"

namespace millrace {

// Whatever engine: its modules, the harness around them and the glue that makes a library of both.
struct EngineLibrary {
  std::string name;                                              // in messages: "3x3, stride 1, 2 x 2 tiles"
  std::string top;                                               // of the harness
  std::vector<std::pair<std::string_view, int64_t>> parameters;  // of the top
  std::vector<std::pair<std::string_view, int64_t>> defines;     // of the glue
  std::vector<RtlModule> modules;
  std::vector<HarnessSource> harness;  // .sv and .cpp are compiled, .h included
  // A memory's content that the top reads from a file, whose place the parameter names; none: no name.
  std::string_view image_parameter = {}, image_file = {};
  std::string image = {};
  // Of so few elements that the headers of Verilator's files would take the compiler longer than what they hold: elements are not copied
  // into the engine, each for its place, and its C++ is compiled at once.
  bool small = false;
};

struct EngineBuildOptions {
  std::filesystem::path cache;  // empty: default_engine_cache()
};

struct BuiltEngine {
  std::filesystem::path engine_file;
  std::string simulator;     // "Verilator 5.006 2023-01-22"
  double build_seconds = 0;  // 0: it was there
};

// $MILLRACE_COSIM_CACHE, or a folder millrace/cosim in $XDG_CACHE_HOME, in ~/.cache or among the temporary files.
std::filesystem::path default_engine_cache();

BuiltEngine build_library(const EngineLibrary& library, const EngineBuildOptions& options);

}  // namespace millrace
