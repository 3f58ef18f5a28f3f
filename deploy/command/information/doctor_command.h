// `millrace doctor [--measure [--model NAME [--micro-batch N,..]] [--catalogue-out FILE]] [--json]`: what this machine has, what this build
// has, what is missing, what that would enable and the package that brings it; on standard output.
//
//   return doctor({.json = json, .measure = measure, .catalogue_out = path});
//
// A table for people, one JSON object for scripts; the JSON's keys are a contract:
//   version, system, processor, cores, memory_bytes, memory_available_bytes, isa, bf16, onednn,
//   findings[{name, present, detail, enables, package}], install[names of Debian packages],
//   build{type, compiler, flags, sanitizers, parts[{name, found, version, enables, package}]}
// and with --measure, after a few seconds of benchmarks on one thread:
//   measured{threads, macs_per_second, bytes_per_second, memory_bytes, convolution{forward, error_back, parameter_gradient}, dense,
//     convolutions[{in_channels, out_channels, height, width, kernel, stride, micro_batch, shares}] with a model, origin}
//   measured_gpu{present, reason} where there is none, else measured_gpu{present, precision, macs_per_second, bytes_per_second,
//   memory_bytes, upload_bytes_per_second, download_bytes_per_second, launch_seconds, convolution{..}, dense, origin}
// catalogue_out gets what was measured as the device "cpu" of a catalogue, for --catalogue of other commands, and the first GPU under the
// catalogue's name for it, or "gpu" where it has none; what is not measured of it stays the catalogue's.
// Nothing missing is an error: the exit status is 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct DoctorOptions {
  bool json = false;
  bool measure = false;
  std::string model = {};  // its convolutions are measured one by one; needs measure
  std::vector<int64_t> micro_batches = {1, 8};
  std::string catalogue_out = {};  // empty: none; needs measure
};

int doctor(const DoctorOptions& options);

}  // namespace millrace
