// The command line of millrace-bench-rnn.
#pragma once

#include <string>

#include "gpu/rnn/bench/result_file.h"

namespace millrace::rnn {

struct Arguments {
  bool quick = false, compile = false, calibrate = false, resume = false, without_cudnn = false, list = false;
  int runs = 101, layouts = 5, device = 0;
  double seconds = 0;  // 0: as long as it takes
  Slice slice;
  std::string choices, json, commit = "unknown";
};

// Exit status: what run_on_gpu.sh goes by.
enum ExitStatus { kAllCorrect = 0, kWrong = 1, kWrongArguments = 2, kCasesLeft = 3 };

// Prints and ends the program for --help and for what is no command line of this program.
Arguments parse(int count, char** words);

}  // namespace millrace::rnn
