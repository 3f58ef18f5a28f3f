// Which algorithm each convolution runs by, chosen once. On disk, when asked for: a file of one GPU with one set of libraries, since the
// numbers mean nothing to another; a file of any other is left unread and written anew. Internal to gpu/device.
//
//   AlgorithmBook book("algorithms.txt", engine->facts());
//   if (!book.find(key, workspace_limit)) book.enter(key, engine->choose(...));
//
// The file is text: a line that says whose it is, then one per choice: key, algorithm, workspace, layout, name, divided by tabs.
// Fails with kMalformed, naming file and line, on what it cannot read; with kIo where it cannot write.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "gpu/device/engine.h"

namespace millrace::gpu {

std::string convolution_key(const ConvolutionGeometry& geometry, ConvolutionPhase phase, Precision precision);

class AlgorithmBook {
 public:
  // An empty path: memory alone.
  AlgorithmBook(std::filesystem::path path, const Facts& facts);

  // Null when it is not known, or takes more workspace than that.
  const ConvolutionChoice* find(const std::string& key, size_t most_workspace) const;
  const ConvolutionChoice& enter(const std::string& key, ConvolutionChoice choice);

 private:
  void read();
  void write() const;

  std::filesystem::path path_;
  std::string owner_;
  std::map<std::string, ConvolutionChoice> choices_;
};

}  // namespace millrace::gpu
