#include "tests/gpu/device/ptx/ptx_work.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <typeinfo>
#include <variant>

namespace millrace::testing {
namespace {

using rnn::ptx::Module;
using rnn::ptx::PtxError;
using rnn::ptx::Schedule;

constexpr int kThreads = 256;  // of the kernels, as cuda_work.cu launches them
static_assert(kThreads == gpu::kReductionThreads);

template <class T>
std::string type_name() {
  int status = 0;
  char* const name = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, &status);
  std::string text = status == 0 ? name : "";
  std::free(name);
  return text;
}

[[maybe_unused]] std::vector<std::string> objects_in(const char* list_file) {
  std::vector<std::string> objects;
  std::ifstream list(list_file);
  for (std::string line; std::getline(list, line);)
    if (line.find(".cu.") != std::string::npos) objects.push_back(line);
  return objects;
}

// "run_elements<millrace::gpu::AddBias>(" of what a demangler says.
std::string kernel_of(const std::string& demangled) {
  const size_t begin = demangled.find("run_");
  return begin == std::string::npos ? demangled : demangled.substr(begin, demangled.find('(', begin) + 1 - begin);
}

}  // namespace

PtxWork::PtxWork(const std::vector<std::string>& objects, const std::function<void(std::string&)>& change) {
  for (const std::string& object : objects)
    for (std::string text : rnn::ptx::texts_in(object)) {
      if (change) change(text);
      modules_.push_back(std::make_unique<Module>(text));
    }
  for (const auto& module : modules_)
    for (const auto& entry : module->entries()) kernels_.insert(kernel_of(entry->demangled));
}

template <class Work>
void PtxWork::launch(const std::string& kernel, int64_t blocks, const Work& work, const MayAccess& may_access) {
  const Module& module = *modules_.at(static_cast<size_t>(launches_) % modules_.size());
  const rnn::ptx::Entry* const entry = module.entry(kernel);
  if (entry == nullptr) throw PtxError("the PTX for " + module.target() + " has no " + kernel);
  std::vector<unsigned char> parameters(static_cast<size_t>(entry->parameter_bytes));
  if (parameters.size() != sizeof(work)) throw PtxError("the parameter of " + kernel + " has another size");
  std::memcpy(parameters.data(), &work, sizeof(work));
  constexpr Schedule kSchedules[] = {Schedule::kInTurn, Schedule::kLate, Schedule::kRandom};
  rnn::ptx::Launch launch;
  launch.blocks = static_cast<int>(std::min(blocks, kMostBlocks));
  launch.threads = kThreads;
  launch.schedule = kSchedules[launches_ / static_cast<int64_t>(modules_.size()) % 3];
  launch.seed = static_cast<unsigned>(launches_);
  ++launches_;
  rnn::ptx::run(*entry, launch, parameters, may_access);
  ran_.insert(kernel_of(entry->demangled));
}

void PtxWork::run(const gpu::ElementWork& work, const MayAccess& may_access) {
  std::visit(
      [&]<class Work>(const Work& w) {
        if (w.elements > 0) launch("run_elements<" + type_name<Work>() + ">(", (w.elements + kThreads - 1) / kThreads, w, may_access);
      },
      work);
}

void PtxWork::run(const gpu::ReductionWork& work, const MayAccess& may_access) {
  std::visit(
      [&]<class Work>(const Work& w) {
        if (w.groups > 0) launch("run_groups<" + type_name<Work>() + ">(", w.groups, w, may_access);
      },
      work);
}

void PtxWork::run(const gpu::DirectConvolution& work, const MayAccess& may_access) {
  launch("run_convolution(", (work.elements() + kThreads - 1) / kThreads, work, may_access);
}

std::vector<std::string> objects_of_the_module() {
#ifdef MILLRACE_CUDA_OBJECTS
  return objects_in(MILLRACE_CUDA_OBJECTS);
#else
  return {};
#endif
}

std::vector<std::string> objects_of_recurrences() {
#ifdef MILLRACE_RECURRENT_OBJECTS
  return objects_in(MILLRACE_RECURRENT_OBJECTS);
#else
  return {};
#endif
}

}  // namespace millrace::testing
