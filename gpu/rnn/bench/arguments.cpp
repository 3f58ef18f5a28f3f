#include "gpu/rnn/bench/arguments.h"

#include <cstdio>
#include <cstdlib>
#include <map>

namespace millrace::rnn {
namespace {

constexpr const char* kUsage =
    "millrace-bench-rnn [--quick] [--compile] [--calibrate] [--runs N] [--layouts K] [--choices FILE] [--device N] [--json FILE\n"
    "                   [--resume]] [--slice I/N] [--seconds S] [--commit ID] [--without-cudnn] [--list]\n"
    "\n"
    "Times recurrent layers on a GPU: GRNN's grid of LSTM and GRU (hidden 64 to 2048, batch 1 to 32, 100 steps, fp32, fp16,\n"
    "bf16, inference and forward+backward), Persistent RNNs' batch sweep and GRNN's two networks, each beside every cuDNN\n"
    "algorithm that accepts it, and as whichever was the faster, which --choices remembers. Medians. Outputs and all gradients\n"
    "(dX, dW, dR, db, dh0, dc0) are compared with cuDNN's standard algorithm: outputs by their largest difference, gradients\n"
    "by theirs over the largest element of the tensor; correct up to 1e-4 in fp32, 1e-2 in fp16, 8e-2 in bf16, and a hundred\n"
    "times that for the rectifier's gradients, whose kink is either way within rounding.\n"
    "Of the grid's cases the recurrence alone is timed, too, without the input's product and the fills, over 100 and over 1,000\n"
    "steps: the slope between them is the time of a step.\n"
    "  --quick          a few cases\n"
    "  --compile        also try tiles that are not shipped, compiled on the spot\n"
    "  --calibrate      fit the model's constants to this GPU first\n"
    "  --runs N         timed runs per median (101)\n"
    "  --layouts K      layouts of the model's first that are timed before one is chosen (5)\n"
    "  --choices FILE   remember chosen layouts, and who runs a layer, in FILE\n"
    "  --device N       which GPU (0)\n"
    "  --json FILE      write the results to FILE, which is whole after every case\n"
    "  --resume         go on where FILE stops; a case that ended the program before is passed over as broken\n"
    "  --slice I/N      every N-th case from the I-th on\n"
    "  --seconds S      begin no case that would end after S seconds; exit status 3 when cases are left\n"
    "  --commit ID      what the results' \"commit\" says\n"
    "  --without-cudnn  run although there is no cuDNN to compare with\n"
    "  --list           print the names of the cases and end\n"
    "Exit status: 0 all correct; 1 no GPU, no cuDNN, or an output or gradient differs; 2 wrong arguments; 3 cases are left.\n";

[[noreturn]] void wrong(const std::string& what) {
  std::fprintf(stderr, "millrace-bench-rnn: %s\n\n%s", what.c_str(), kUsage);
  std::exit(kWrongArguments);
}

int whole_number(const std::string& flag, const char* text, int least) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < least || value > 1000000)
    wrong(flag + " takes a whole number from " + std::to_string(least) + ", not \"" + text + "\"");
  return static_cast<int>(value);
}

}  // namespace

Arguments parse(int count, char** words) {
  Arguments arguments;
  const std::map<std::string, bool*> switches = {{"--quick", &arguments.quick},     {"--calibrate", &arguments.calibrate},
                                                 {"--compile", &arguments.compile}, {"--resume", &arguments.resume},
                                                 {"--list", &arguments.list},       {"--without-cudnn", &arguments.without_cudnn}};
  const std::map<std::string, std::string*> texts = {
      {"--choices", &arguments.choices}, {"--json", &arguments.json}, {"--commit", &arguments.commit}};
  const std::map<std::string, std::pair<int*, int>> numbers = {
      {"--runs", {&arguments.runs, 1}}, {"--layouts", {&arguments.layouts, 1}}, {"--device", {&arguments.device, 0}}};
  for (int i = 1; i < count; ++i) {
    const std::string flag = words[i];
    if (flag == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(kAllCorrect);
    }
    if (const auto found = switches.find(flag); found != switches.end()) {
      *found->second = true;
      continue;
    }
    const auto text = texts.find(flag);
    const auto number = numbers.find(flag);
    if (text == texts.end() && number == numbers.end() && flag != "--slice" && flag != "--seconds") wrong("there is no \"" + flag + "\"");
    if (++i == count) wrong(flag + " needs a value");
    if (text != texts.end()) {
      *text->second = words[i];
    } else if (number != numbers.end()) {
      *number->second.first = whole_number(flag, words[i], number->second.second);
    } else if (flag == "--seconds") {
      arguments.seconds = whole_number(flag, words[i], 1);
    } else {
      const std::optional<Slice> slice = slice_in(words[i]);
      if (!slice) wrong("--slice takes I/N, the I-th of N parts, not \"" + std::string(words[i]) + "\"");
      arguments.slice = *slice;
    }
  }
  if (arguments.resume && arguments.json.empty()) wrong("--resume needs --json FILE, where it goes on");
  return arguments;
}

}  // namespace millrace::rnn
