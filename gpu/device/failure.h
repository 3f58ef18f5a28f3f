// What went wrong on a GPU, as engines say it: not as Error, for an engine may live in a module that is loaded at run time and knows
// nothing of core.
//
//   throw Failure(Failure::Kind::kNoDevice, "there is no GPU here; run where nvidia-smi shows one");
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace millrace::gpu {

class Failure : public std::exception {
 public:
  enum class Kind { kNoDevice, kWrongArchitecture, kMissingLibrary, kBroken };
  Failure(Kind kind, std::string text) : kind_(kind), text_(std::move(text)) {}
  Kind kind() const { return kind_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Kind kind_;
  std::string text_;
};

}  // namespace millrace::gpu
