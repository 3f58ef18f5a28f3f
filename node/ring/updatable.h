// Something whose parameters are updated once per mini-batch: a device's own, or a slice it stores for another device.
// Between its last gradient and the update may stand others: replicas to add up with, a norm over the whole ring.
#pragma once

#include <cstdint>

#include "core/device/device.h"

namespace millrace {

class Updatable {
 public:
  virtual ~Updatable() = default;
  // The mini-batch whose gradients are complete and wait for their update; -1: none.
  virtual int64_t due() = 0;
  virtual int64_t gradient_elements() const = 0;
  virtual void read_gradients(HostNumbers values) = 0;
  virtual void write_gradients(ConstHostNumbers values) = 0;
  virtual double squared_gradient_norm() = 0;
  virtual void update(const UpdateArguments& arguments) = 0;
};

}  // namespace millrace
