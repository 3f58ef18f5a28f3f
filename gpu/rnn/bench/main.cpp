// millrace-bench-rnn: our persistent recurrent layers beside every algorithm of cuDNN's that accepts a case, in one
// process on the GPU at hand; a table, and with --json a file. Every time printed is measured.
#include <chrono>
#include <cstdio>

#include "gpu/rnn/architectures.h"
#include "gpu/rnn/bench/arguments.h"
#include "gpu/rnn/bench/measure.h"
#include "gpu/rnn/bench/outcome_json.h"
#include "gpu/rnn/cuda/compile_at_run_time.h"
#include "gpu/rnn/cuda/micro_benchmarks.h"

namespace millrace::rnn {
namespace {

std::string worst_gradient_of(const Comparison& comparison) {
  if (comparison.worst_gradient.first.empty()) return "-";
  char text[64];
  std::snprintf(text, sizeof(text), "%.1e in %s", comparison.worst_gradient.second, comparison.worst_gradient.first.c_str());
  return text;
}

void print(const Outcome& o) {
  const Timed* best = nullptr;
  for (const Timed& peer : o.peers)
    if (peer.microseconds > 0 && (best == nullptr || peer.microseconds < best->microseconds)) best = &peer;
  const double steps = o.one.shape.steps;
  if (!o.ours.refusal.empty()) {
    std::printf("%-72s %s\n", name_of(o.one).c_str(), o.ours.refusal.c_str());
  } else {
    const Comparison& found = o.ours.comparison;
    std::printf("%-72s %9.3f %9.3f %9.3f %-24s %6.2f %-7s %6.2f %9.1e  %s%s\n", name_of(o.one).c_str(), o.ours.microseconds / steps,
                o.recurrence.forward.empty() ? 0.0 : slope_of(o.recurrence.steps, o.recurrence.forward),
                best != nullptr ? best->microseconds / steps : 0.0, best != nullptr ? best->what.c_str() : "none", o.ratio,
                o.runner.is_library() ? "cuDNN" : "ours", o.chosen_ratio, found.output, worst_gradient_of(found).c_str(),
                o.compared && !o.correct ? "  WRONG" : "");
  }
  for (const std::string& layout : o.passed_over) std::printf("  passed over: %s\n", layout.c_str());
  std::fflush(stdout);
}

Fields fields_of(const Gpu& g) {
  return {{"constants", "{\"multiply_add_latency\": " + finite(g.multiply_add_latency) + ", \"shuffle\": " + finite(g.shuffle) +
                            ", \"warp_slowdown\": " + finite(g.warp_slowdown) + ", \"reuse_slowdown\": " + finite(g.reuse_slowdown) +
                            ", \"saturated_slowdown\": " + finite(g.saturated_slowdown) + ", \"reduction_slowdown\": " +
                            finite(g.reduction_slowdown) + ", \"l2_bytes_per_cycle\": " + finite(g.l2_bytes_per_cycle) +
                            ", \"l2_latency\": " + finite(g.l2_latency) + ", \"products_saturate\": " + finite(g.products_saturate) + "}"}};
}

int run(int count, char** words) {
  const Arguments arguments = parse(count, words);
  const std::vector<Case> cases = grid(arguments.quick ? Extent::kQuick : Extent::kFull);
  if (arguments.list) {
    for (const Case& one : cases) std::printf("%s\n", name_of(one).c_str());
    return kAllCorrect;
  }
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
  const std::unique_ptr<CudaMachine> gpu = cuda_machine(arguments.device);
  if (arguments.compile && !can_load_compiled())
    throw RnnError(RnnFailure::kMissingPart,
                   "this build's CUDA runtime cannot load what is compiled on the spot; leave --compile out, or "
                   "build with CUDA 12.8 or newer");
  if (arguments.compile)
    for (const Kernel& kernel : kernels_for_run_time()) gpu->add_kernel(kernel);
  Library* const cudnn = gpu->dnn_library();
  if (cudnn == nullptr && !arguments.without_cudnn)
    throw RnnError(RnnFailure::kMissingPart,
                   "there is no cuDNN to compare with (or this was built without its headers); put its folder into LD_LIBRARY_PATH, or "
                   "give --without-cudnn to time our own kernels alone");
  std::printf("%s, compute capability %d.%d, %d multiprocessors; matrix products by %s; %s\n", gpu->name().c_str(),
              gpu->architecture() / 10, gpu->architecture() % 10, gpu->limits().multiprocessors,
              gpu->has_cublas() ? "cuBLAS" : "our own kernel", cudnn != nullptr ? cudnn->name().c_str() : "no cuDNN");
  std::printf(
      "times measured, medians of %d runs, in microseconds per step of one pass over the sequence; alone: the forward recurrence\n"
      "alone, by the slope from %d to %d steps\n\n",
      arguments.runs, kFewSteps, kManySteps);
  std::printf("%-72s %9s %9s %9s %-24s %6s %-7s %6s %9s  %s\n", "case", "ours", "alone", "cuDNN", "best algorithm", "ratio", "chosen",
              "ratio", "off by", "worst gradient");
  Gpu constants = gpu->constants();
  if (arguments.calibrate) {
    constants = fit(micro_benchmarks(*gpu), constants);
    std::printf(
        "constants fitted to this GPU (the model's units): multiply-add %.2f cycles, exchange %.2f, slowdown per doubling of warps %.2f "
        "and of\n"
        "outputs %.2f, saturated %.2f, L2 %.1f bytes per cycle and multiprocessor, %.0f multiply-adds away\n\n",
        constants.multiply_add_latency, constants.shuffle, constants.warp_slowdown, constants.reuse_slowdown, constants.saturated_slowdown,
        constants.l2_bytes_per_cycle, constants.l2_latency);
    std::printf("rows for gpu/rnn/architectures.cpp, compute capability %d:\n%s\n", gpu->architecture(),
                rows_of(constants, gpu->name()).c_str());
  }
  std::string command;
  for (int i = 0; i < count; ++i) command += (i > 0 ? " " : "") + std::string(words[i]);
  Fields heading = {{"gpu", quoted(gpu->name())},
                    {"commit", quoted(arguments.commit)},
                    {"command", quoted(command)},
                    {"cudnn", cudnn != nullptr ? quoted(cudnn->name()) : "null"},
                    {"runs", std::to_string(arguments.runs)}};
  if (arguments.calibrate)
    for (const auto& field : fields_of(constants)) heading.push_back(field);
  ResultFile file(arguments.json, heading);
  if (arguments.resume) file.resume();
  SelectionFile choices(arguments.choices);
  Deadline deadline(arguments.seconds);
  bool cases_left = false;
  for (std::size_t i = 0; i < cases.size() && !cases_left; ++i) {
    const std::string name = name_of(cases[i]);
    if (!arguments.slice.takes(static_cast<int>(i)) || file.has(name)) continue;
    const double begin = elapsed();
    cases_left = !deadline.allows_another(begin);
    if (cases_left) break;
    file.begin(name);
    const Outcome o =
        measure(*gpu, cases[i], {arguments.runs, arguments.layouts, arguments.choices.empty() ? nullptr : &choices, constants});
    file.end(name, fields_of(o));
    print(o);
    deadline.add_case(elapsed() - begin);
  }
  const Summary summary = summary_of(file);
  std::printf(
      "\n%d cases, %d wrong, refused or broken. Best cuDNN's time over the grid, batch <= 20, by that of the chosen: geometric mean %.2f, "
      "worst %.2f; by our own kernels': %.2f, worst %.2f\n",
      summary.cases, summary.wrong, summary.mean, summary.worst, summary.own_mean, summary.own_worst);
  if (cases_left) std::printf("cases are left: run again with --resume\n");
  Fields more = fields_of(summary);
  more.emplace_back("cases_left", cases_left ? "true" : "false");
  file.write(more);
  return cases_left ? kCasesLeft : summary.wrong > 0 ? kWrong : kAllCorrect;
}

}  // namespace
}  // namespace millrace::rnn

int main(int count, char** words) {
  try {
    return millrace::rnn::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "millrace-bench-rnn: %s\n", error.what());
    return millrace::rnn::kWrong;
  }
}
