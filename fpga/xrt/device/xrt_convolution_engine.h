// The phases of convolutions done by a device: what it needs is sent, the run is started, what comes out is fetched. Internal to fpga/xrt.
//
//   const std::unique_ptr<ConvolutionEngine> engine = make_xrt_convolution_engine(std::move(link), {});
//
// A micro-batch goes in pieces of about `piece_bytes`, so that the next piece travels while one is computed and the result of
// the one before comes back. What the device was sent last is remembered and not sent again: weights stay there (the update
// writes them there), and PG finds the errors that EB used. Gradients are summed up on the device and fetched when
// somebody wants to see them; PG returns as soon as it is started.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "fpga/conv_ce/phases/convolution_engine.h"
#include "fpga/xrt/device/device_link.h"

namespace millrace::xrt {

struct XrtEngineOptions {
  size_t piece_bytes = size_t{1} << 20;
  std::string description = "conv_ce through XRT, 16 bits fixed point";
};

// What went over the link, for tests and reports.
struct LinkTraffic {
  int64_t runs = 0;
  int64_t bytes_sent = 0;
  int64_t bytes_kept = 0;  // not sent: the device had them
  int64_t bytes_fetched = 0;
};

class XrtConvolutionEngine : public ConvolutionEngine {
 public:
  virtual const LinkTraffic& traffic() const = 0;
};

std::unique_ptr<XrtConvolutionEngine> make_xrt_convolution_engine(std::unique_ptr<DeviceLink> link, const XrtEngineOptions& options);

}  // namespace millrace::xrt
