// Which layout is really the fastest: the model ranks, the clock decides among the first few, and a file remembers per GPU
// and problem. The file also remembers who runs a whole layer, our kernels or a library, and why (runner.h).
//
//   SelectionFile file("/home/me/.cache/millrace/rnn-layouts.txt");
//   const std::optional<Layout> best = choose_layout(machine, problem, constants, 5, &file,
//                                                    [&](const Layout& layout) { return seconds_of(layout); });
//
// The file is text, a line per choice with a checksum; lines that are torn, foreign or of kernels that are no longer there
// are passed over. Writers hold a lock and replace the file as a whole, so that readers see the old one or the new one.
// What cannot be read or written only costs the time of measuring again.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/rnn/plan.h"
#include "gpu/rnn/runner.h"

namespace millrace::rnn {

struct Choice {
  KernelShape shape;
  int threads = 0;
  int slices = 1;
  double seconds = 0;
};

class SelectionFile {
 public:
  explicit SelectionFile(std::string path) : path_(std::move(path)) {}

  std::optional<Choice> find(const std::string& gpu, const Problem& problem) const;
  // False when the file could not be written.
  bool store(const std::string& gpu, const Problem& problem, const Choice& choice);

  // Of a layer, as measured against one library in one version.
  std::optional<Runner> find_runner(const std::string& gpu, const std::string& library, const RnnShape& shape) const;
  bool store_runner(const std::string& gpu, const std::string& library, const RnnShape& shape, const Runner& runner);

 private:
  std::map<std::string, std::string> read() const;  // whole lines' values by their keys
  std::optional<std::string> value_of(const std::string& key) const;
  bool store_value(const std::string& key, const std::string& value);
  std::string path_;
};

// Measures the `most` best layouts by the model with `seconds_of` and returns the fastest; what the file knows is not
// measured again. A layout whose measurement throws RnnError is passed over, and `passed_over` gets its name and the reason.
// Nothing when no layout fits.
std::optional<Layout> choose_layout(const Machine& machine, const Problem& problem, const Gpu& constants, int most, SelectionFile* file,
                                    const std::function<double(const Layout&)>& seconds_of,
                                    std::vector<std::string>* passed_over = nullptr);

}  // namespace millrace::rnn
