// `millrace doctor [--measure] [--json]`: what this machine has, what this build has, what is missing, what that would
// enable and the package that brings it; on standard output.
//
//   return doctor(json, measure);
//
// A table for people, one JSON object for scripts; the JSON's keys are a contract:
//   version, system, processor, cores, memory_bytes, memory_available_bytes, isa, onednn,
//   findings[{name, present, detail, enables, package}], install[names of Debian packages],
//   build{type, compiler, flags, sanitizers, parts[{name, found, version, enables, package}]}
// and with --measure, after a few seconds of benchmarks on one thread:
//   measured{threads, macs_per_second, bytes_per_second, memory_bytes, convolution{forward, error_back, parameter_gradient}, origin}
// Nothing missing is an error: the exit status is 0.
#pragma once

namespace millrace {

int doctor(bool json, bool measure);

}  // namespace millrace
