#include "tests/gpu/rnn/shipped_table.h"

#include <cxxabi.h>

#include <cstdlib>
#include <typeinfo>

#include "gpu/rnn/dispatch.h"
#include "gpu/rnn/kernels/shipped.h"

namespace millrace::rnn {
namespace {

template <class K>
std::string type_name() {
  int status = 0;
  char* const name = abi::__cxa_demangle(typeid(K).name(), nullptr, nullptr, &status);
  const std::string text = status == 0 ? name : typeid(K).name();
  std::free(name);
  return text;
}

template <Recurrence kRecurrence, bool kBackward, class S, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples,
          int kCluster = 1>
ShippedKernel entry() {
  using K = KernelOf<kRecurrence, kBackward, S, kMatrixUnits, kRows, kColumns, kGroup, kSamples, kCluster>;
  return {{{kRecurrence, kBackward, precision_of<S>(), kMatrixUnits, kRows, kColumns, kGroup, kSamples, 0, 0, kCluster},
           &K::shared_bytes,
           nullptr},
          type_name<K>()};
}

template <int kRows, int kColumns, int kGroup, int kSamples, int kWidth, int kOutputs>
ShippedKernel one_exchange() {
  using K = GruOneExchange<FmaProduct<kRows, kColumns, kGroup, kSamples>, kWidth, kOutputs>;
  const KernelShape shape{Recurrence::kCanonicalGru, false, Precision::kFloat, false, kRows, kColumns, kGroup, kSamples, kWidth, kOutputs};
  return {{shape, &K::shared_bytes, nullptr}, type_name<K>()};
}

}  // namespace

const std::vector<ShippedKernel>& shipped_table() {
#define MILLRACE_ENTRY(recurrence, backward, format, ...) entry<Recurrence::recurrence, backward, format, __VA_ARGS__>(),
  static const std::vector<ShippedKernel> table = {
      MILLRACE_SHIPPED_FMA(MILLRACE_ENTRY, kLstm) MILLRACE_SHIPPED_MATRIX(MILLRACE_ENTRY, kLstm) MILLRACE_SHIPPED_FMA(MILLRACE_ENTRY, kGru)
          MILLRACE_SHIPPED_MATRIX(MILLRACE_ENTRY, kGru) MILLRACE_SHIPPED_TWO_PHASES(MILLRACE_ENTRY, kCanonicalGru)
              MILLRACE_SHIPPED_MATRIX_TWO_PHASES(MILLRACE_ENTRY, kCanonicalGru) one_exchange<4, 8, 32, 1, 16, 1>(),
      one_exchange<8, 8, 8, 1, 64, 1>(),
      MILLRACE_SHIPPED_VANILLA(MILLRACE_ENTRY) MILLRACE_SHIPPED_MATRIX_VANILLA(MILLRACE_ENTRY) MILLRACE_SHIPPED_CLUSTERS(
          MILLRACE_ENTRY, kLstm) MILLRACE_SHIPPED_MATRIX_CLUSTERS(MILLRACE_ENTRY, kLstm) MILLRACE_SHIPPED_CLUSTERS(MILLRACE_ENTRY, kGru)};
#undef MILLRACE_ENTRY
  return table;
}

}  // namespace millrace::rnn
