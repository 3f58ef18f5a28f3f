#include "tests/gpu/device/emulated_recurrences.h"

#include "gpu/rnn/machine.h"

namespace millrace::testing {

EmulatedRecurrences::EmulatedRecurrences(const Options& options, uint64_t seed, MayAccess may_access)
    : machine_(options.machine ? options.machine(std::move(may_access))
                               : rnn::emulated_machine({.multiprocessors = options.multiprocessors,
                                                        .schedule = rnn::emulator::Schedule::kRandom,
                                                        .seed = static_cast<unsigned>(seed),
                                                        .missing_blocks = options.missing_blocks})),
      runner_(std::make_unique<gpu::RecurrenceRunner>(*machine_, options.patience)) {}

EmulatedRecurrences::~EmulatedRecurrences() = default;

}  // namespace millrace::testing
