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
//   link_gbps                                                          to a neighbour, where no cluster file says it
#pragma once

#include <string_view>

#include "core/cpu/cpu_cost_model.h"
#include "core/documents/catalogue.h"

namespace millrace {

// The shipped profile, CpuProfile{}.
std::string_view cpu_catalogue_text();

CatalogueDevice catalogue_device_of(const CpuProfile& profile);

}  // namespace millrace
