// Runs a libFuzzer entry point without libFuzzer, for a bounded time: first every seed as it is, then mutations of them.
//
//   fuzz_model --seconds 60 tests/fuzz/documents/corpus/model     find something
//   fuzz_model --seconds 0 finding.bin                            replay what was found
//   fuzz_model --seed 7 --iterations 100000 CORPUS                the same inputs on every machine
//
// An input that crashes, lets an exception out, takes more than a minute or (without sanitizers) more than 4 GiB
// is saved as finding.bin in the working folder, and the exit status is not 0.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "tests/fuzz/mutation.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace millrace::fuzz {
namespace {

constexpr unsigned kMostSecondsPerInput = 60;
constexpr rlim_t kMostMemory = rlim_t{4} << 30;
constexpr const char* kFinding = "finding.bin";

struct Options {
  double seconds = 4;
  std::optional<uint64_t> iterations;
  uint64_t seed = 1;
  size_t longest = size_t{1} << 16;
  std::vector<std::filesystem::path> corpus;
};

// What is being tried, where a signal handler finds it.
const char* current_data = nullptr;
size_t current_size = 0;

// Async-signal-safe: called from handlers and from a dying sanitizer.
void save_finding() {
  const int file = ::open(kFinding, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  size_t written = 0;
  while (written < current_size) {
    const ssize_t got = ::write(file, current_data + written, current_size - written);
    if (got <= 0) break;
    written += static_cast<size_t>(got);
  }
  ::close(file);
  constexpr std::string_view kNote = "\nthe input is saved as finding.bin; replay it with --seconds 0 finding.bin\n";
  [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, kNote.data(), kNote.size());
}

void on_signal(int signal) {
  if (signal == SIGALRM) {
    constexpr std::string_view kNote = "\none input takes too long";
    [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, kNote.data(), kNote.size());
  }
  save_finding();
  ::_exit(128 + signal);  // as a shell reports it; a debugger stops at the signal itself
}

void watch() {
  std::signal(SIGALRM, on_signal);
  std::signal(SIGABRT, on_signal);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_set_death_callback(save_finding);
#else
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_signal);
#ifndef __SANITIZE_THREAD__
  const rlimit limit{kMostMemory, kMostMemory};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) fail(ErrorCode::kUnavailable, "the memory limit cannot be set");
#endif
#endif
}

void try_input(const std::string& input) {
  current_data = input.data();
  current_size = input.size();
  ::alarm(kMostSecondsPerInput);
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  } catch (const std::exception& escaped) {
    fmt::print(stderr, "an exception got out: {}", escaped.what());
    save_finding();
    std::exit(1);
  } catch (...) {
    fmt::print(stderr, "an exception got out that is not even a std::exception");
    save_finding();
    std::exit(1);
  }
  ::alarm(0);
}

Options options_from(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (!name.starts_with("--")) {
      options.corpus.emplace_back(name);
      continue;
    }
    if (i + 1 == arguments.size()) fail(ErrorCode::kUsage, "{} needs a number", name);
    const std::string& value = arguments[++i];
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !(number >= 0 && number < 1e15)) fail(ErrorCode::kUsage, "{}: \"{}\" is no number", name, value);
    if (name == "--seconds") {
      options.seconds = number;
    } else if (name == "--iterations") {
      options.iterations = static_cast<uint64_t>(number);
    } else if (name == "--seed") {
      options.seed = static_cast<uint64_t>(number);
    } else if (name == "--longest") {
      options.longest = static_cast<size_t>(number);
    } else {
      fail(ErrorCode::kUsage, "{}: not an option; known: --seconds, --iterations, --seed, --longest", name);
    }
  }
  return options;
}

std::vector<std::string> read_corpus(const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty() && !paths.empty()) fail(ErrorCode::kNotFound, "{}: holds no seeds", paths.front().string());
  std::vector<std::string> corpus;
  for (const std::filesystem::path& file : files) corpus.push_back(read_text(file));
  return corpus;
}

void run(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const std::vector<std::string> corpus = read_corpus(options.corpus);
  watch();
  try_input("");
  for (const std::string& seed : corpus) try_input(seed);

  Mutator mutator(corpus, options.seed, options.longest);
  const auto deadline = Clock::now() + std::chrono::duration<double>(options.seconds);
  uint64_t number = 0;
  const auto goes_on = [&] { return options.iterations ? number < *options.iterations : Clock::now() < deadline; };
  for (; goes_on(); ++number) try_input(mutator.input(number));
  fmt::print(stderr, "{} seeds and {} mutations, no finding\n", corpus.size(), number);
}

}  // namespace
}  // namespace millrace::fuzz

int main(int argc, char** argv) {
  try {
    millrace::fuzz::run(millrace::fuzz::options_from({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
