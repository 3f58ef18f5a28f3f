// What a word or number behind a flag may be, checked as the command line is read, so that the message names the flag.
//
//   whole(command->add_option("--steps", flags->steps, "stop after so many updates"), 1);
//   real(command->add_option("--momentum", flags->momentum, "[0.9]"), Least::kZero);
//
//   --steps: "ten" is not a whole number
//   --momentum: -1 is below 0
//
// Limits: only what a flag can tell by itself; what fields must be to each other is checked with the whole job.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class Option;
}

namespace millrace {

enum class Least { kZero, kAboveZero };

void whole(CLI::Option* option, uint64_t least, uint64_t most = INT64_MAX);
void real(CLI::Option* option, Least least);
// For names and paths: --out "$FOLDER" with FOLDER unset is a mistake, not a wish for none.
void not_empty(CLI::Option* option);

// What --time-chunks says: a number of parts, or 0 for auto. Fails with kUsage on anything else.
int64_t time_chunks_from(const std::string& words);

}  // namespace millrace
