// What opcodes do to registers, by PTX's documentation (ISA 9.0, chapter 9.7). Types are read from the opcode's last part.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/gpu/rnn/ptx/opcode_table.h"

namespace millrace::rnn::ptx {
namespace {

using S8 = std::int8_t;
using U8 = std::uint8_t;
using S16 = std::int16_t;
using U16 = std::uint16_t;
using S32 = std::int32_t;
using U32 = std::uint32_t;
using S64 = std::int64_t;
using U64 = std::uint64_t;

template <class T>
T get(const Word* r, int slot) {
  T value;
  __builtin_memcpy(&value, r + slot, sizeof(T));
  return value;
}
template <class T>
void set(Word* r, int slot, T value) {
  Word word = 0;
  __builtin_memcpy(&word, &value, sizeof(T));
  r[slot] = word;
}

template <class T, class Body>
void binary(Word* r, const Instruction& i, Body body) {
  set<T>(r, i.at[0], static_cast<T>(body(get<T>(r, i.at[1]), get<T>(r, i.at[2]))));
}

template <class T>
using Wrapping =
    std::conditional_t<std::is_floating_point_v<T>, T, std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<T>, int, T>>>;

template <class T>
struct Types {
  using W = Wrapping<T>;  // integers wrap around

  static void add(Word* r, const Instruction& i) {
    binary<W>(r, i, [](W a, W b) { return a + b; });
  }
  static void sub(Word* r, const Instruction& i) {
    binary<W>(r, i, [](W a, W b) { return a - b; });
  }
  static void mul(Word* r, const Instruction& i) {
    binary<W>(r, i, [](W a, W b) {
      if constexpr (std::is_same_v<W, U16>)
        return static_cast<U32>(a) * b;
      else
        return a * b;
    });
  }
  static void mad(Word* r, const Instruction& i) {
    set<W>(r, i.at[0], static_cast<W>(static_cast<U64>(get<W>(r, i.at[1])) * get<W>(r, i.at[2]) + get<W>(r, i.at[3])));
  }
  static void min(Word* r, const Instruction& i) {
    binary<T>(r, i, [](T a, T b) {
      if constexpr (std::is_floating_point_v<T>)
        return std::fmin(a, b);
      else
        return std::min(a, b);
    });
  }
  static void max(Word* r, const Instruction& i) {
    binary<T>(r, i, [](T a, T b) {
      if constexpr (std::is_floating_point_v<T>)
        return std::fmax(a, b);
      else
        return std::max(a, b);
    });
  }
  // Division by zero has no result of its own in PTX: here one that is noticed.
  static void div(Word* r, const Instruction& i) {
    binary<T>(r, i, [](T a, T b) {
      if constexpr (std::is_floating_point_v<T>)
        return a / b;
      else {
        if (b == 0) return std::numeric_limits<T>::max();
        if constexpr (std::is_signed_v<T>)
          if (b == static_cast<T>(-1)) return static_cast<T>(W{0} - static_cast<W>(a));
        return static_cast<T>(a / b);
      }
    });
  }
  static void rem(Word* r, const Instruction& i) {
    binary<T>(r, i, [](T a, T b) {
      return b == 0 ? std::numeric_limits<T>::max() : std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : static_cast<T>(a % b);
    });
  }
  static void logical_and(Word* r, const Instruction& i) {
    binary<W>(r, i, [](W a, W b) { return a & b; });
  }
  static void logical_or(Word* r, const Instruction& i) {
    binary<W>(r, i, [](W a, W b) { return a | b; });
  }
  static void logical_xor(Word* r, const Instruction& i) {
    binary<W>(r, i, [](W a, W b) { return a ^ b; });
  }
  static void logical_not(Word* r, const Instruction& i) { set<W>(r, i.at[0], static_cast<W>(~get<W>(r, i.at[1]))); }
  static void neg(Word* r, const Instruction& i) {
    if constexpr (std::is_floating_point_v<T>)
      set<T>(r, i.at[0], -get<T>(r, i.at[1]));
    else
      set<W>(r, i.at[0], static_cast<W>(W{0} - get<W>(r, i.at[1])));
  }
  static void abs(Word* r, const Instruction& i) {
    if constexpr (std::is_floating_point_v<T>)
      set<T>(r, i.at[0], std::fabs(get<T>(r, i.at[1])));
    else
      set<W>(r, i.at[0], get<T>(r, i.at[1]) < 0 ? static_cast<W>(W{0} - get<W>(r, i.at[1])) : get<W>(r, i.at[1]));
  }
  static void mov(Word* r, const Instruction& i) { set<W>(r, i.at[0], get<W>(r, i.at[1])); }
  static void selp(Word* r, const Instruction& i) { set<W>(r, i.at[0], get<W>(r, r[i.at[3]] != 0 ? i.at[1] : i.at[2])); }
  // Shifts by the width and more leave nothing, or the sign.
  static void shl(Word* r, const Instruction& i) {
    const U32 by = get<U32>(r, i.at[2]);
    set<W>(r, i.at[0], by >= 8 * sizeof(T) ? W{0} : static_cast<W>(static_cast<U64>(get<W>(r, i.at[1])) << by));
  }
  static void shr(Word* r, const Instruction& i) {
    const U32 by = std::min<U32>(get<U32>(r, i.at[2]), 8 * sizeof(T));
    const T value = get<T>(r, i.at[1]);
    if (by == 8 * sizeof(T))
      set<T>(r, i.at[0], std::is_signed_v<T> && value < T{0} ? static_cast<T>(-1) : T{0});
    else
      set<T>(r, i.at[0], static_cast<T>(value >> by));
  }
  static void fma(Word* r, const Instruction& i) {
    set<T>(r, i.at[0], std::fma(get<T>(r, i.at[1]), get<T>(r, i.at[2]), get<T>(r, i.at[3])));
  }
  static void fma_down(Word* r, const Instruction& i) {
    std::fesetround(FE_DOWNWARD);
    const volatile T result = std::fma(get<T>(r, i.at[1]), get<T>(r, i.at[2]), get<T>(r, i.at[3]));
    std::fesetround(FE_TONEAREST);
    set<T>(r, i.at[0], result);
  }
  static void rcp(Word* r, const Instruction& i) { set<T>(r, i.at[0], 1 / get<T>(r, i.at[1])); }
  static void sqrt(Word* r, const Instruction& i) { set<T>(r, i.at[0], std::sqrt(get<T>(r, i.at[1]))); }
  static void ex2(Word* r, const Instruction& i) { set<T>(r, i.at[0], std::exp2(get<T>(r, i.at[1]))); }
  static void copysign(Word* r, const Instruction& i) { set<T>(r, i.at[0], std::copysign(get<T>(r, i.at[2]), get<T>(r, i.at[1]))); }
};

// Products twice as wide as their factors, whole or their upper half.
template <class T, class Wide>
void mul_wide(Word* r, const Instruction& i) {
  set<Wide>(r, i.at[0], static_cast<Wide>(static_cast<Wide>(get<T>(r, i.at[1])) * static_cast<Wide>(get<T>(r, i.at[2]))));
}
template <class T, class Wide>
void mad_wide(Word* r, const Instruction& i) {
  set<Wide>(r, i.at[0],
            static_cast<Wide>(static_cast<Wide>(get<T>(r, i.at[1])) * static_cast<Wide>(get<T>(r, i.at[2])) + get<Wide>(r, i.at[3])));
}
template <class T, class Wide>
void mul_hi(Word* r, const Instruction& i) {
  const Wide product = static_cast<Wide>(static_cast<Wide>(get<T>(r, i.at[1])) * static_cast<Wide>(get<T>(r, i.at[2])));
  set<T>(r, i.at[0], static_cast<T>(product >> (8 * sizeof(T))));
}

template <class T>
void setp(Word* r, const Instruction& i) {
  const T a = get<T>(r, i.at[1]), b = get<T>(r, i.at[2]);
  bool holds = false;
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>) unordered = std::isnan(a) || std::isnan(b);
  switch (i.mode % kUnordered) {
    case kEqual: holds = a == b; break;
    case kUnequal: holds = a != b && !unordered; break;
    case kLess: holds = a < b; break;
    case kLessEqual: holds = a <= b; break;
    case kGreater: holds = a > b; break;
    case kGreaterEqual: holds = a >= b; break;
    case kNumbers: holds = !unordered; break;
    case kNan: holds = unordered; break;
  }
  if (i.mode >= kUnordered && unordered) holds = true;
  r[i.at[0]] = holds ? 1 : 0;
}

template <class To, class From>
void cvt(Word* r, const Instruction& i) {
  const From from = get<From>(r, i.at[1]);
  if constexpr (std::is_floating_point_v<From>) {
    From rounded = from;
    switch (i.mode % kSaturated) {
      case kToNearest: rounded = std::nearbyint(from); break;
      case kDown: rounded = std::floor(from); break;
      case kUp: rounded = std::ceil(from); break;
      case kToZero: rounded = std::trunc(from); break;
      default: break;
    }
    if constexpr (std::is_floating_point_v<To>) {
      To to = static_cast<To>(rounded);
      if (i.mode >= kSaturated) to = std::isnan(to) ? To{0} : std::fmin(std::fmax(to, To{0}), To{1});
      set<To>(r, i.at[0], to);
    } else {  // clamped to the range; NaN is zero
      constexpr auto least = std::numeric_limits<To>::min();
      constexpr auto most = std::numeric_limits<To>::max();
      set<To>(r, i.at[0],
              std::isnan(rounded)                   ? To{0}
              : rounded <= static_cast<From>(least) ? least
              : rounded >= static_cast<From>(most)  ? most
                                                    : static_cast<To>(rounded));
    }
  } else if constexpr (std::is_floating_point_v<To>) {
    set<To>(r, i.at[0], static_cast<To>(from));
  } else {  // extended to a register that may be wider than the type
    r[i.at[0]] = static_cast<Word>(static_cast<S64>(static_cast<To>(from)));
    if constexpr (sizeof(To) <= 4) r[i.at[0]] &= 0xFFFFFFFFU;
  }
}

void and_predicates(Word* r, const Instruction& i) { r[i.at[0]] = r[i.at[1]] != 0 && r[i.at[2]] != 0 ? 1 : 0; }
void or_predicates(Word* r, const Instruction& i) { r[i.at[0]] = r[i.at[1]] != 0 || r[i.at[2]] != 0 ? 1 : 0; }
void xor_predicates(Word* r, const Instruction& i) { r[i.at[0]] = (r[i.at[1]] != 0) != (r[i.at[2]] != 0) ? 1 : 0; }
void not_predicate(Word* r, const Instruction& i) { r[i.at[0]] = r[i.at[1]] != 0 ? 0 : 1; }
void mov_predicate(Word* r, const Instruction& i) { r[i.at[0]] = static_cast<S32>(r[i.at[1]]) != 0 ? 1 : 0; }
void mov_all(Word* r, const Instruction& i) { r[i.at[0]] = r[i.at[1]]; }

void wait_a_while(Word*, const Instruction&) {}

// To another block of the cluster: its rank, counted from one, lies above what any block has of shared memory.
void map_to_rank(Word* r, const Instruction& i) {
  set<U32>(r, i.at[0], (get<U32>(r, i.at[1]) & 0xFFFFFFU) | (get<U32>(r, i.at[2]) + 1) << 24U);
}

void bfi(Word* r, const Instruction& i) {  // the first's lowest bits into the second
  const U32 from = get<U32>(r, i.at[1]), into = get<U32>(r, i.at[2]);
  const U32 at = get<U32>(r, i.at[3]) & 0xFFU, width = std::min(get<U32>(r, i.at[4]) & 0xFFU, 32U);
  U32 mask = width >= 32 ? 0xFFFFFFFFU : (1U << width) - 1;
  mask = at >= 32 ? 0 : mask << at;
  set<U32>(r, i.at[0], (into & ~mask) | (at >= 32 ? 0 : (from << at) & mask));
}
void bfe(Word* r, const Instruction& i) {  // some bits from one place on
  const U32 at = get<U32>(r, i.at[2]) & 0xFFU, width = std::min(get<U32>(r, i.at[3]) & 0xFFU, 32U);
  const U32 mask = width >= 32 ? 0xFFFFFFFFU : (1U << width) - 1;
  set<U32>(r, i.at[0], at >= 32 ? 0 : get<U32>(r, i.at[1]) >> at & mask);
}
void shf_left_wrap(Word* r, const Instruction& i) {
  const U32 by = get<U32>(r, i.at[3]) & 31U;
  const U64 both = static_cast<U64>(get<U32>(r, i.at[2])) << 32U | get<U32>(r, i.at[1]);
  set<U32>(r, i.at[0], static_cast<U32>(both << by >> 32U));
}
void pack_32(Word* r, const Instruction& i) { r[i.at[0]] = get<U16>(r, i.at[1]) | static_cast<U32>(get<U16>(r, i.at[2])) << 16U; }
void pack_64(Word* r, const Instruction& i) { r[i.at[0]] = get<U32>(r, i.at[1]) | static_cast<U64>(get<U32>(r, i.at[2])) << 32U; }
void unpack_32(Word* r, const Instruction& i) {
  const U32 both = get<U32>(r, i.at[2]);
  r[i.at[0]] = both & 0xFFFFU;
  r[i.at[1]] = both >> 16U;
}
void unpack_64(Word* r, const Instruction& i) {
  const U64 both = r[i.at[2]];
  r[i.at[0]] = both & 0xFFFFFFFFU;
  r[i.at[1]] = both >> 32U;
}

template <class T>
void add_integers(OpcodeTable& t, const std::string& type) {
  using X = Types<T>;
  for (const auto& [name, run] : std::initializer_list<std::pair<const char*, Run>>{{"add.", X::add},
                                                                                    {"sub.", X::sub},
                                                                                    {"mul.lo.", X::mul},
                                                                                    {"mad.lo.", X::mad},
                                                                                    {"min.", X::min},
                                                                                    {"max.", X::max},
                                                                                    {"div.", X::div},
                                                                                    {"rem.", X::rem},
                                                                                    {"and.", X::logical_and},
                                                                                    {"or.", X::logical_or},
                                                                                    {"xor.", X::logical_xor},
                                                                                    {"not.", X::logical_not},
                                                                                    {"neg.", X::neg},
                                                                                    {"abs.", X::abs},
                                                                                    {"mov.", X::mov},
                                                                                    {"selp.", X::selp},
                                                                                    {"shl.", X::shl},
                                                                                    {"shr.", X::shr},
                                                                                    {"setp.", setp<T>}})
    t[name + type] = run;
}
template <class T>
void add_floats(OpcodeTable& t, const std::string& type) {
  using X = Types<T>;
  for (const auto& [name, run] : std::initializer_list<std::pair<const char*, Run>>{{"add.", X::add},
                                                                                    {"add.rn.", X::add},
                                                                                    {"sub.", X::sub},
                                                                                    {"sub.rn.", X::sub},
                                                                                    {"mul.", X::mul},
                                                                                    {"mul.rn.", X::mul},
                                                                                    {"min.", X::min},
                                                                                    {"max.", X::max},
                                                                                    {"div.rn.", X::div},
                                                                                    {"div.approx.", X::div},
                                                                                    {"div.full.", X::div},
                                                                                    {"neg.", X::neg},
                                                                                    {"abs.", X::abs},
                                                                                    {"mov.", X::mov},
                                                                                    {"selp.", X::selp},
                                                                                    {"fma.rn.", X::fma},
                                                                                    {"fma.rm.", X::fma_down},
                                                                                    {"rcp.rn.", X::rcp},
                                                                                    {"rcp.approx.", X::rcp},
                                                                                    {"rcp.approx.ftz.", X::rcp},
                                                                                    {"sqrt.rn.", X::sqrt},
                                                                                    {"ex2.approx.", X::ex2},
                                                                                    {"ex2.approx.ftz.", X::ex2},
                                                                                    {"copysign.", X::copysign},
                                                                                    {"setp.", setp<T>}})
    t[name + type] = run;
}

template <class To>
void add_conversions_to(OpcodeTable& t, const std::string& to) {
  t["cvt." + to + ".s8"] = cvt<To, S8>;
  t["cvt." + to + ".u8"] = cvt<To, U8>;
  t["cvt." + to + ".s16"] = cvt<To, S16>;
  t["cvt." + to + ".u16"] = cvt<To, U16>;
  t["cvt." + to + ".s32"] = cvt<To, S32>;
  t["cvt." + to + ".u32"] = cvt<To, U32>;
  t["cvt." + to + ".s64"] = cvt<To, S64>;
  t["cvt." + to + ".u64"] = cvt<To, U64>;
  t["cvt." + to + ".f32"] = cvt<To, float>;
  t["cvt." + to + ".f64"] = cvt<To, double>;
}

OpcodeTable all() {
  OpcodeTable t;
  add_integers<S16>(t, "s16");
  add_integers<U16>(t, "u16");
  add_integers<U16>(t, "b16");
  add_integers<S32>(t, "s32");
  add_integers<U32>(t, "u32");
  add_integers<U32>(t, "b32");
  add_integers<S64>(t, "s64");
  add_integers<U64>(t, "u64");
  add_integers<U64>(t, "b64");
  add_floats<float>(t, "f32");
  add_floats<double>(t, "f64");
  t["mul.wide.s16"] = mul_wide<S16, S32>;
  t["mul.wide.u16"] = mul_wide<U16, U32>;
  t["mul.wide.s32"] = mul_wide<S32, S64>;
  t["mul.wide.u32"] = mul_wide<U32, U64>;
  t["mad.wide.s32"] = mad_wide<S32, S64>;
  t["mad.wide.u32"] = mad_wide<U32, U64>;
  t["mul.hi.s16"] = mul_hi<S16, S32>;
  t["mul.hi.u16"] = mul_hi<U16, U32>;
  t["mul.hi.s32"] = mul_hi<S32, S64>;
  t["mul.hi.u32"] = mul_hi<U32, U64>;
  t["and.pred"] = and_predicates;
  t["or.pred"] = or_predicates;
  t["xor.pred"] = xor_predicates;
  t["not.pred"] = not_predicate;
  t["mov.pred"] = mov_predicate;
  t["nanosleep.u32"] = wait_a_while;
  t["fence.mbarrier_init.release.cluster"] = wait_a_while;  // a barrier of the cluster follows, which orders more
  t["mapa.shared::cluster.u32"] = map_to_rank;
  t["cvta.to.shared.u64"] = mov_all;
  t["cvta.shared.u64"] = mov_all;
  t["bfi.b32"] = bfi;
  t["bfe.u32"] = bfe;
  t["shf.l.wrap.b32"] = shf_left_wrap;
  t["cvta.to.global.u64"] = mov_all;
  t["cvta.global.u64"] = mov_all;
  t["mov.b32.pack"] = pack_32;
  t["mov.b64.pack"] = pack_64;
  t["mov.b32.unpack"] = unpack_32;
  t["mov.b64.unpack"] = unpack_64;
  add_conversions_to<S8>(t, "s8");
  add_conversions_to<U8>(t, "u8");
  add_conversions_to<S16>(t, "s16");
  add_conversions_to<U16>(t, "u16");
  add_conversions_to<S32>(t, "s32");
  add_conversions_to<U32>(t, "u32");
  add_conversions_to<S64>(t, "s64");
  add_conversions_to<U64>(t, "u64");
  add_conversions_to<float>(t, "f32");
  add_conversions_to<double>(t, "f64");
  return t;
}

}  // namespace

const OpcodeTable& opcode_table() {
  static const OpcodeTable table = all();
  return table;
}

}  // namespace millrace::rnn::ptx
