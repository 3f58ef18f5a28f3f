#include "tests/gpu/device/ptx/ptx_recurrences.h"

#include <algorithm>
#include <utility>

#include "tests/gpu/rnn/ptx/machine.h"

namespace millrace::testing {

using rnn::ptx::Module;
using rnn::ptx::PtxMachine;
using rnn::ptx::Schedule;

PtxRecurrences::PtxRecurrences(const std::vector<std::string>& objects) {
  for (const std::string& object : objects)
    for (const std::string& text : rnn::ptx::texts_in(object)) {
      auto module = std::make_unique<Module>(text);
      auto mine = std::ranges::find_if(architectures_, [&](const auto& one) { return one.front()->target() == module->target(); });
      if (mine == architectures_.end()) mine = architectures_.emplace(mine);
      mine->push_back(std::move(module));
    }
}

EmulatedRecurrences::OpenMachine PtxRecurrences::on(size_t architecture, Gpu gpu) const {
  std::vector<const Module*> modules;
  for (const auto& module : architectures_.at(architecture)) modules.push_back(module.get());
  return [modules, gpu](EmulatedRecurrences::MayAccess may_access) -> std::unique_ptr<rnn::Machine> {
    const rnn::Limits limits = gpu == kH200 ? rnn::Limits{132, 227 * 1024} : rnn::Limits{1, 64};
    auto machine = std::make_unique<PtxMachine>(modules, limits);
    machine->set_schedule(gpu == kH200 ? Schedule::kLate : Schedule::kRandom, 7);
    machine->set_memory_of_others(std::move(may_access));
    return machine;
  };
}

}  // namespace millrace::testing
