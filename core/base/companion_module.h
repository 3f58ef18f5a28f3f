// Modules that belong to the programs and are loaded when they are first wanted, so that nothing needs what they link in order to start:
// drivers of accelerators, for instance.
//
//   const CompanionModule module = load_companion("libmillrace_cuda.so", "build with the CUDA toolkit", "the folder of CUDA's libraries");
//   if (!module.reason.empty()) ...;                                       // why it cannot be used
//   auto* open = module.function<Engine*(int)>("millrace_cuda_engine");    // null: a module of another version
//
// Looks beside the program, in ../lib/millrace and where this build installs them. What is loaded stays loaded. Thread safe.
#pragma once

#include <string>

namespace millrace {

struct CompanionModule {
  void* handle = nullptr;
  std::string path;
  std::string reason;  // why it is not there, and what to do

  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
};

// `made_by` says what to do where there is none; `libraries` what must be on LD_LIBRARY_PATH.
CompanionModule load_companion(const std::string& file, const std::string& made_by, const std::string& libraries);

}  // namespace millrace
