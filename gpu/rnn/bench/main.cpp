// millrace-bench-rnn: our persistent recurrent layers beside every algorithm of cuDNN's that accepts a case, in one
// process on the GPU at hand; a table, and with --json a file. Every time printed is measured.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "gpu/rnn/bench/measure.h"
#include "gpu/rnn/cuda/compile_at_run_time.h"
#include "gpu/rnn/cuda/micro_benchmarks.h"

namespace millrace::rnn {
namespace {

constexpr const char* kUsage =
    "millrace-bench-rnn [--quick] [--compile] [--calibrate] [--runs N] [--layouts K] [--choices FILE] [--device N] [--json FILE] [--commit "
    "ID]\n"
    "\n"
    "Times recurrent layers on a GPU: GRNN's grid of LSTM and GRU (hidden 64 to 2048, batch 1 to 32, 100 steps, fp32, fp16,\n"
    "bf16, inference and forward+backward), Persistent RNNs' batch sweep and GRNN's two networks, each beside every cuDNN\n"
    "algorithm that accepts it, and as whichever was the faster, which --choices remembers. Medians. Outputs and all gradients\n"
    "(dX, dW, dR, db, dh0, dc0) are compared with cuDNN's standard algorithm: outputs by their largest difference, gradients\n"
    "by theirs over the largest element of the tensor; correct up to 1e-4 in fp32, 1e-2 in fp16, 8e-2 in bf16, and a hundred\n"
    "times that for the rectifier's gradients, whose kink is either way within rounding.\n"
    "  --quick          a few cases\n"
    "  --compile        also try tiles that are not shipped, compiled on the spot\n"
    "  --calibrate      fit the model's constants to this GPU first\n"
    "  --runs N         timed runs per median (101)\n"
    "  --layouts K      layouts of the model's first that are timed before one is chosen (5)\n"
    "  --choices FILE   remember chosen layouts, and who runs a layer, in FILE\n"
    "  --device N       which GPU (0)\n"
    "  --json FILE      write the results to FILE\n"
    "  --commit ID      what the results' \"commit\" says\n"
    "Exit status: 0 all correct; 1 no GPU, or an output or gradient differs; 2 wrong arguments.\n";

struct Arguments {
  bool quick = false, compile = false, calibrate = false;
  int runs = 101, layouts = 5, device = 0;
  std::string choices, json, commit = "unknown";
};

[[noreturn]] void wrong(const std::string& what) {
  std::fprintf(stderr, "millrace-bench-rnn: %s\n\n%s", what.c_str(), kUsage);
  std::exit(2);
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  const auto number = [](const std::string& flag, const char* text, int least) {
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < least || value > 1000000)
      wrong(flag + " takes a whole number from " + std::to_string(least) + ", not \"" + text + "\"");
    return static_cast<int>(value);
  };
  for (int i = 1; i < count; ++i) {
    const std::string flag = words[i];
    if (flag == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    if (flag == "--quick") {
      arguments.quick = true;
      continue;
    }
    if (flag == "--calibrate") {
      arguments.calibrate = true;
      continue;
    }
    if (flag == "--compile") {
      arguments.compile = true;
      continue;
    }
    const bool known =
        flag == "--runs" || flag == "--layouts" || flag == "--device" || flag == "--choices" || flag == "--json" || flag == "--commit";
    if (!known) wrong("there is no \"" + flag + "\"");
    if (++i == count) wrong(flag + " needs a value");
    if (flag == "--runs") arguments.runs = number(flag, words[i], 1);
    if (flag == "--layouts") arguments.layouts = number(flag, words[i], 1);
    if (flag == "--device") arguments.device = number(flag, words[i], 0);
    if (flag == "--choices") arguments.choices = words[i];
    if (flag == "--json") arguments.json = words[i];
    if (flag == "--commit") arguments.commit = words[i];
  }
  return arguments;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string finite(double value) {
  std::ostringstream out;
  if (std::isfinite(value))
    out << value;
  else
    out << "null";
  return out.str();
}

std::string json_of(const RnnShape& shape, const Comparison& comparison) {
  std::string text = ", \"difference\": " + finite(comparison.output) +
                     ", \"difference_tolerance\": " + finite(output_tolerance(shape.precision)) + ", \"gradient_errors\": {";
  for (std::size_t i = 0; i < comparison.gradients.size(); ++i)
    text += (i > 0 ? ", " : "") + quoted(comparison.gradients[i].first) + ": " + finite(comparison.gradients[i].second);
  text += "}";
  if (!comparison.worst_gradient.first.empty())
    text += ", \"worst_gradient\": " + quoted(comparison.worst_gradient.first) +
            ", \"worst_gradient_error\": " + finite(comparison.worst_gradient.second) +
            ", \"gradient_tolerance\": " + finite(gradient_tolerance(shape.precision, shape.recurrence));
  return text + ", \"correct\": " + (comparison.correct ? "true" : "false");
}

// `compared`: there was something to compare with.
std::string json_of(const RnnShape& shape, const Timed& timed, bool compared) {
  std::string text = "{\"what\": " + quoted(timed.what);
  if (!timed.refusal.empty()) return text + ", \"refused\": " + quoted(timed.refusal) + "}";
  text += ", \"microseconds\": " + finite(timed.microseconds);
  return text + (compared ? json_of(shape, timed.comparison) : "") + "}";
}

std::string json_of(const Outcome& o) {
  const RnnShape& s = o.one.shape;
  std::string text = "    {\"case\": " + quoted(name_of(o.one)) + ", \"group\": " + quoted(o.one.group) +
                     ", \"recurrence\": " + quoted(std::string(name_of(s.recurrence))) +
                     ", \"precision\": " + quoted(std::string(name_of(s.precision))) + ", \"hidden\": " + std::to_string(s.hidden) +
                     ", \"batch\": " + std::to_string(s.batch) + ", \"steps\": " + std::to_string(s.steps) +
                     ", \"layers\": " + std::to_string(o.one.layers) + ", \"training\": " + (s.training ? "true" : "false") +
                     ", \"layout\": " + quoted(o.layout) + ", \"ours\": " + json_of(s, o.ours, o.compared) + ", \"peers\": [";
  for (std::size_t i = 0; i < o.peers.size(); ++i) {
    if (i > 0) text += ", ";
    text += json_of(s, o.peers[i], o.compared);
  }
  text += "], \"runner\": " + quoted(o.runner.is_library() ? o.runner.algorithm : "own kernels") + ", \"why\": " + quoted(o.runner.reason) +
          ", \"chosen\": " + json_of(s, o.chosen, o.compared);
  return text + ", \"compared\": " + (o.compared ? "true" : "false") + ", \"correct\": " + (o.correct ? "true" : "false") +
         ", \"ratio_to_best_peer\": " + finite(o.ratio) + ", \"chosen_ratio_to_best_peer\": " + finite(o.chosen_ratio) + "}";
}

std::string worst_gradient_of(const Comparison& comparison) {
  if (comparison.worst_gradient.first.empty()) return "-";
  char text[64];
  std::snprintf(text, sizeof(text), "%.1e in %s", comparison.worst_gradient.second, comparison.worst_gradient.first.c_str());
  return text;
}

// Of times by ours, over cases.
class Ratios {
 public:
  void add(double ratio) {
    if (ratio <= 0) return;  // nothing to compare with
    logarithms_ += std::log(ratio);
    worst_ = count_ == 0 ? ratio : std::fmin(worst_, ratio);
    ++count_;
  }
  double mean() const { return count_ > 0 ? std::exp(logarithms_ / count_) : 0; }  // geometric
  double worst() const { return worst_; }

 private:
  double logarithms_ = 0;
  double worst_ = 0;
  int count_ = 0;
};

int run(int count, char** words) {
  const Arguments arguments = parse(count, words);
  const std::unique_ptr<CudaMachine> gpu = cuda_machine(arguments.device);
  if (arguments.compile)
    for (const Kernel& kernel : kernels_for_run_time()) gpu->add_kernel(kernel);
  Library* const cudnn = gpu->dnn_library();
  std::printf("%s, compute capability %d.%d, %d multiprocessors; matrix products by %s; %s\n", gpu->name().c_str(),
              gpu->architecture() / 10, gpu->architecture() % 10, gpu->limits().multiprocessors,
              gpu->has_cublas() ? "cuBLAS" : "our own kernel",
              cudnn != nullptr ? cudnn->name().c_str() : "no cuDNN: nothing to compare with (put its folder into LD_LIBRARY_PATH)");
  std::printf("times measured, medians of %d runs, in microseconds per step of one pass over the sequence\n\n", arguments.runs);
  std::printf("%-72s %9s %9s %-24s %6s %-7s %6s %9s  %s\n", "case", "ours", "cuDNN", "best algorithm", "ratio", "chosen", "ratio", "off by",
              "worst gradient");
  Gpu constants = titan_v();
  if (arguments.calibrate) {
    constants = fit(micro_benchmarks(*gpu), constants);
    std::printf(
        "constants fitted to this GPU (the model's units): multiply-add %.2f cycles, exchange %.2f, slowdown per doubling of warps %.2f "
        "and of\n"
        "outputs %.2f, saturated %.2f, L2 %.1f bytes per cycle and multiprocessor, %.0f multiply-adds away\n\n",
        constants.multiply_add_latency, constants.shuffle, constants.warp_slowdown, constants.reuse_slowdown, constants.saturated_slowdown,
        constants.l2_bytes_per_cycle, constants.l2_latency);
  }
  SelectionFile choices(arguments.choices);
  std::vector<Outcome> outcomes;
  Ratios ours;
  Ratios chosen;
  int wrong_cases = 0;
  for (const Case& one : grid(arguments.quick ? Extent::kQuick : Extent::kFull)) {
    const Outcome o = measure(*gpu, one, {arguments.runs, arguments.layouts, arguments.choices.empty() ? nullptr : &choices, constants});
    const Timed* best = nullptr;
    for (const Timed& peer : o.peers)
      if (peer.microseconds > 0 && (best == nullptr || peer.microseconds < best->microseconds)) best = &peer;
    const double steps = one.shape.steps;
    if (!o.ours.refusal.empty()) {
      std::printf("%-72s %s\n", name_of(one).c_str(), o.ours.refusal.c_str());
    } else {
      const Comparison& found = o.ours.comparison;
      std::printf("%-72s %9.3f %9.3f %-24s %6.2f %-7s %6.2f %9.1e  %s%s\n", name_of(one).c_str(), o.ours.microseconds / steps,
                  best != nullptr ? best->microseconds / steps : 0.0, best != nullptr ? best->what.c_str() : "none", o.ratio,
                  o.runner.is_library() ? "cuDNN" : "ours", o.chosen_ratio, found.output, worst_gradient_of(found).c_str(),
                  o.compared && !o.correct ? "  WRONG" : "");
    }
    std::fflush(stdout);
    if (!o.ours.refusal.empty() || (o.compared && !o.correct)) ++wrong_cases;
    if (one.group == "grid" && one.shape.batch <= 20) {
      ours.add(o.ratio);
      chosen.add(o.chosen_ratio);
    }
    outcomes.push_back(o);
  }
  std::printf(
      "\n%zu cases, %d wrong or refused. Best cuDNN's time over the grid, batch <= 20, by that of the chosen: geometric mean %.2f, "
      "worst %.2f; by our own kernels': %.2f, worst %.2f\n",
      outcomes.size(), wrong_cases, chosen.mean(), chosen.worst(), ours.mean(), ours.worst());
  if (!arguments.json.empty()) {
    std::ofstream out(arguments.json);
    out << "{\n  \"gpu\": " << quoted(gpu->name()) << ",\n  \"commit\": " << quoted(arguments.commit) << ",\n  \"command\": ";
    std::string command;
    for (int i = 0; i < count; ++i) {
      if (i > 0) command += ' ';
      command += words[i];
    }
    out << quoted(command) << ",\n  \"cudnn\": " << (cudnn != nullptr ? quoted(cudnn->name()) : "null")
        << ",\n  \"runs\": " << arguments.runs << ",\n  \"geometric_mean_ratio\": " << finite(chosen.mean())
        << ",\n  \"worst_ratio\": " << finite(chosen.worst()) << ",\n  \"own_geometric_mean_ratio\": " << finite(ours.mean())
        << ",\n  \"own_worst_ratio\": " << finite(ours.worst()) << ",\n  \"cases\": [\n";
    for (std::size_t i = 0; i < outcomes.size(); ++i) out << json_of(outcomes[i]) << (i + 1 < outcomes.size() ? ",\n" : "\n");
    out << "  ]\n}\n";
    out.flush();
    if (!out) throw RnnError(RnnFailure::kMissingPart, arguments.json + " cannot be written; give --json a file in a folder that exists");
  }
  return wrong_cases > 0 ? 1 : 0;
}

}  // namespace
}  // namespace millrace::rnn

int main(int count, char** words) {
  try {
    return millrace::rnn::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "millrace-bench-rnn: %s\n", error.what());
    return 1;
  }
}
