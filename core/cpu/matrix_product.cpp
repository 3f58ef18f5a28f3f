#include "core/cpu/matrix_product.h"

#include <oneapi/dnnl/dnnl.h>

#include "core/base/check.h"

namespace millrace::cpu {

void multiply_matrices(const Matrix& a, const Matrix& b, int64_t m, int64_t n, int64_t k, bool adds, float* c, int64_t c_stride) {
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data, a.stride, b.data,
                                          b.stride, adds ? 1.0f : 0.0f, c, c_stride);
  MILLRACE_CHECK(status == dnnl_success, "product of {} x {} x {}: oneDNN status {}", m, k, n, static_cast<int>(status));
}

}  // namespace millrace::cpu
