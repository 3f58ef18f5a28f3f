// The normal distribution's quantile function: the z below which a standard normal value lies with probability p. Internal to core/train.
//
//   double z = normal_quantile(0.975);      // 1.95996...
//
// One uniform draw makes one normal value, several times faster than logarithm and cosine, and in the 85% around the
// middle from additions, multiplications and a division alone: the same on every machine that rounds as IEEE 754 says.
// Algorithm AS 241 (Wichura, Applied Statistics 37, 1988): relative error about 1e-16. Pure, thread safe.
// Limits: 1.4e-11 <= p <= 1 - 1.4e-11, which 32-bit draws do not leave; the paper's third branch, beyond, is left out.
#pragma once

namespace millrace {

double normal_quantile(double p);

}  // namespace millrace
