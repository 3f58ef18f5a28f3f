// The catalogue's device "cpu": a CPU profile in the form every kind of device has.
//
//   const Catalogue catalogue = parse_catalogue(cpu_catalogue_text(), "core/cpu");
//   save(Catalogue{{catalogue_device_of(measure_cpu_profile())}}, "here.textproto");
//
// Values, those of one thread unless said otherwise:
//   threads  macs_per_second  memory_bytes_per_second  memory_bytes (of all threads)  cache_bytes
//   launch_seconds (of a layer's phase, whatever its size; absent: 0)
//   efficiency_{conv,dense}_{forward,error_back,parameter_gradient}    shares of macs_per_second
//   efficiency_conv_INtoOUT_HxW_kKsS_bB_{...}   the same of one convolution (cpu_cost_model.h), as many as were measured
//   weight_copies_conv_INtoOUT_HxW_kKsS_bB      what Winograd keeps of its weights, in multiples of them (absent: 0)
//   shapes_of_avx                               512 or 2: the convolutions that are shipped for AVX-512 or AVX2 (absent: none)
//   link_gbps                                                          to a neighbour, where no cluster file says it
#pragma once

#include <string>
#include <string_view>

#include "core/cpu/cpu_cost_model.h"
#include "core/documents/catalogue.h"

namespace millrace {

// shipped_cpu_profile() of an instruction set.
std::string cpu_catalogue_text(std::string_view instruction_set = cpu_instruction_set());

CatalogueDevice catalogue_device_of(const CpuProfile& profile);

}  // namespace millrace
