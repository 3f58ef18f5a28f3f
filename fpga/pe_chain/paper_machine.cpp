#include "fpga/pe_chain/paper_machine.h"

#include <algorithm>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/pe_chain/chain_product.h"

namespace millrace {

namespace {

constexpr double kWordBytes = 4;

double real(int64_t whole) { return static_cast<double>(whole); }

double steps_of_all(const FarnnNetwork& n) { return real(n.batch * n.steps); }

}  // namespace

int64_t step_cycles(const FarnnNetwork& n, const FarnnMachine& machine, bool back) {
  ChainProduct product{.inputs = n.fed_back(), .outputs = n.cells, .elements = machine.elements, .most_parts = machine.most_parts};
  if (back) std::swap(product.inputs, product.outputs);
  int64_t cycles = feed_cycles(product);
  if (n.projection > 0) {  // its inputs are divided over the units, whose sums are added
    ChainProduct projection = product;
    projection.inputs = back ? divided_up(n.projection, n.gates) : divided_up(n.cells, n.gates);
    projection.outputs = back ? n.cells : n.projection;
    cycles += feed_cycles(projection);
  }
  const std::optional<int64_t>& exposed = back ? machine.back_exposed : machine.forward_exposed;
  if (exposed) return cycles + *exposed;
  if (n.projection > 0) return cycles;
  return cycles +
         exposed_cycles(product, {.latency = kActivationCycles + kAdderCycles + kRelayCycles, .chains = kPortChains, .samples = n.batch});
}

FarnnParts parts_of(const FarnnNetwork& n, const FarnnMachine& machine) {
  const double bytes = real(n.recurrent_weights()) * kWordBytes, steps = steps_of_all(n);
  FarnnParts parts;
  parts.forward = steps * real(step_cycles(n, machine, false)) / machine.clock_hz;
  parts.back = steps * real(step_cycles(n, machine, true)) / machine.clock_hz;
  const double port_bytes = kWordBytes * real(kPortChains);
  parts.load = std::max(bytes / machine.load_bytes_per_second, bytes / port_bytes / machine.clock_hz) + machine.pass_seconds;
  parts.input = 2 * real(n.input_weights()) * steps / machine.gpu_flops;
  parts.gradient = 2 * real(n.input_weights() + n.recurrent_weights()) * steps / machine.gpu_flops;
  parts.update = real(n.input_weights() + n.recurrent_weights()) * kUpdateBytes / machine.gpu_bytes_per_second;
  parts.link = steps * kWordBytes * real(n.gates * n.cells + n.fed_back()) / machine.load_bytes_per_second;
  const ChainProduct inputs{.inputs = n.inputs, .outputs = n.cells, .elements = machine.elements, .most_parts = machine.most_parts};
  parts.on_board = steps * real(feed_cycles(inputs)) / machine.clock_hz;
  parts.input_load = real(n.input_weights()) * kWordBytes / machine.load_bytes_per_second + machine.pass_seconds;
  return parts;
}

double training_step_seconds(const FarnnNetwork& n, const FarnnMachine& machine) {
  const FarnnParts p = parts_of(n, machine);
  const double chunk = p.input / real(machine.chunks), last_of_steps = p.forward / real(machine.chunks);
  double board = 0, gpu = 0;
  for (int64_t pass = 0; pass < n.passes(); ++pass) {
    const double input_from = std::max(board, gpu);
    const double steps_from = std::max(board + p.load, input_from + chunk);
    gpu = input_from + p.input;
    board = std::max(steps_from + p.forward, gpu + last_of_steps);
  }
  double errors_there = board, put_off = 0;
  for (int64_t pass = 0; pass < n.passes(); ++pass) {
    const double end = std::max(board + p.load, errors_there) + p.back;
    const double late = std::max(0.0, put_off - std::max(0.0, end - errors_there - p.input));
    board = end;
    errors_there = std::max(end, errors_there + p.input) + chunk + late;
    put_off = p.gradient + p.update;
  }
  return errors_there + put_off;
}

double training_step_seconds_closed(const FarnnNetwork& n, const FarnnMachine& machine) {
  const FarnnParts p = parts_of(n, machine);
  const double chunk = p.input / real(machine.chunks);
  return real(n.passes()) * (2 * std::max(p.load, chunk) + p.forward + p.back) + chunk + p.gradient + p.update;
}

double no_overlap_seconds(const FarnnNetwork& n, const FarnnMachine& machine, bool with_link) {
  const FarnnParts p = parts_of(n, machine);
  const double link = with_link ? 2 * p.link : 0;
  return real(n.passes()) * (2 * p.load + 2 * p.input + p.forward + p.back + p.gradient + p.update + link);
}

double all_on_board_seconds(const FarnnNetwork& n, const FarnnMachine& machine) {
  const FarnnParts p = parts_of(n, machine);
  return real(n.passes()) * (p.forward + p.back + 2 * p.load + 2 * (p.on_board + p.input_load)) + p.gradient + p.update;
}

double array_bound_seconds(const FarnnNetwork& n, const FarnnMachine& machine) {
  return real(n.passes()) * steps_of_all(n) * 2 * real(n.cells * n.fed_back()) / real(machine.elements) / machine.clock_hz;
}

double gpu_alone_seconds(const FarnnNetwork& n, const FarnnMachine& machine, double step_pair) {
  const FarnnParts p = parts_of(n, machine);
  return real(n.passes()) * (real(n.steps) * step_pair + 2 * p.input + p.gradient + p.update);
}

double fitted_step_pair(const FarnnNetwork& n, const FarnnMachine& machine, double seconds) {
  // Linear in the step pair.
  return (seconds - gpu_alone_seconds(n, machine, 0)) / real(n.passes() * n.steps);
}

double roofline_step_pair(const FarnnNetwork& n, const FarnnMachine& machine) {
  return 2 * kWordBytes * real(n.recurrent_weights()) / (machine.gpu_bytes_per_second * kGpuDramShare);
}

}  // namespace millrace
