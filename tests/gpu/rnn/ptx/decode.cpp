// What an opcode says of its instruction: its kind, its operands' sizes, how it compares and rounds (PTX ISA 9.0, chapter 9.7).
#include <algorithm>
#include <cstdlib>

#include "tests/gpu/rnn/ptx/opcode_table.h"

namespace millrace::rnn::ptx {
namespace {

std::vector<std::string> parts_of(const std::string& opcode) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= opcode.size();) {
    const std::size_t dot = std::min(opcode.find('.', at), opcode.size());
    parts.push_back(opcode.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

bool decode_comparison(const std::vector<std::string>& parts, Instruction& i) {
  static const std::map<std::string, int> modes = {{"eq", kEqual},
                                                   {"ne", kUnequal},
                                                   {"lt", kLess},
                                                   {"le", kLessEqual},
                                                   {"gt", kGreater},
                                                   {"ge", kGreaterEqual},
                                                   {"lo", kLess},
                                                   {"ls", kLessEqual},
                                                   {"hi", kGreater},
                                                   {"hs", kGreaterEqual},
                                                   {"num", kNumbers},
                                                   {"nan", kNan},
                                                   {"equ", kUnordered + kEqual},
                                                   {"neu", kUnordered + kUnequal},
                                                   {"ltu", kUnordered + kLess},
                                                   {"leu", kUnordered + kLessEqual},
                                                   {"gtu", kUnordered + kGreater},
                                                   {"geu", kUnordered + kGreaterEqual}};
  const auto mode = modes.find(parts[1]);
  if (parts.size() != 3 || mode == modes.end()) return false;
  i.mode = mode->second;
  return true;
}

// Roundings to a number of the same format: only those to whole numbers change anything, and rn where the format narrows.
bool decode_conversion(std::vector<std::string>& parts, Instruction& i) {
  while (parts.size() > 3) {
    const std::string& word = parts[1];
    if (word == "rni")
      i.mode += kToNearest;
    else if (word == "rmi")
      i.mode += kDown;
    else if (word == "rpi")
      i.mode += kUp;
    else if (word == "rzi")
      i.mode += kToZero;
    else if (word == "sat")
      i.mode += kSaturated;
    else if (word != "rn")
      return false;
    parts.erase(parts.begin() + 1);
  }
  return parts.size() == 3;
}

bool decode_access(const std::vector<std::string>& parts, Instruction& i) {
  i.kind = parts[0] == "ld" ? Kind::kLoad : Kind::kStore;
  static const std::map<std::string, Space> spaces = {
      {"param", Space::kParameter}, {"global", Space::kGlobal}, {"shared", Space::kShared}, {"local", Space::kLocal}};
  static const std::map<std::string, Order> orders = {{"nc", Order::kConstant},
                                                      {"volatile", Order::kVolatile},
                                                      {"relaxed", Order::kRelaxed},
                                                      {"acquire", Order::kAcquire},
                                                      {"release", Order::kRelease}};
  bool has_space = false;
  for (std::size_t k = 1; k + 1 < parts.size(); ++k) {
    const std::string& word = parts[k];
    if (const auto space = spaces.find(word); space != spaces.end()) {
      i.space = space->second;
      has_space = true;
    } else if (const auto order = orders.find(word); order != orders.end()) {
      i.order = order->second;
    } else if (word == "v2" || word == "v4") {
      i.count = word == "v2" ? 2 : 4;
    } else if (word != "gpu") {
      return false;
    }
  }
  const std::string& type = parts.back();
  i.bytes = static_cast<unsigned char>(std::atoi(type.c_str() + 1) / 8);
  i.is_signed = type[0] == 's';
  return has_space && (i.bytes == 1 || i.bytes == 2 || i.bytes == 4 || i.bytes == 8);
}

}  // namespace

bool decode(const std::string& opcode, Instruction& i) {
  std::vector<std::string> parts = parts_of(opcode);
  static const std::map<std::string, Kind> of_clusters = {{"barrier.cluster.arrive.release.aligned", Kind::kClusterArrive},
                                                          {"barrier.cluster.wait.acquire.aligned", Kind::kClusterWait},
                                                          {"mbarrier.init.shared::cta.b64", Kind::kOpenMailbox},
                                                          {"mbarrier.arrive.expect_tx.shared::cta.b64", Kind::kExpect},
                                                          {"mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", Kind::kAwait},
                                                          {"st.async.shared::cluster.mbarrier::complete_tx::bytes.f32", Kind::kSend}};
  if (const auto found = of_clusters.find(opcode); found != of_clusters.end()) {
    i.kind = found->second;
    i.space = Space::kShared;
    return true;
  }
  if (parts[0] == "ld" || parts[0] == "st") return decode_access(parts, i);
  if (opcode == "ret" || opcode == "exit") {
    i.kind = Kind::kReturn;
  } else if (opcode == "bar.sync" || opcode == "barrier.sync") {
    i.kind = Kind::kBarrier;
  } else if (opcode == "shfl.sync.bfly.b32" || opcode == "shfl.sync.idx.b32") {
    i.kind = Kind::kShuffle;
    i.mode = opcode == "shfl.sync.bfly.b32" ? 1 : 0;
  } else if (opcode == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" ||
             opcode == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") {
    i.kind = Kind::kMatrix;
    i.brain = opcode.find(".bf16.") != std::string::npos;
  } else if (opcode == "membar.gl" || opcode == "fence.acq_rel.gpu") {
    i.kind = Kind::kFence;
  } else if (opcode == "mov.%globaltimer") {
    i.kind = Kind::kTimer;
  } else {
    if (parts[0] == "setp") {
      if (!decode_comparison(parts, i)) return false;
      parts.erase(parts.begin() + 1);
    } else if (parts[0] == "cvt") {
      if (!decode_conversion(parts, i)) return false;
    }
    std::string plain;
    for (const std::string& part : parts) plain += (plain.empty() ? "" : ".") + part;
    const auto found = opcode_table().find(plain);
    if (found == opcode_table().end()) return false;
    const bool of_floats = parts.back()[0] == 'f';
    if ((parts[0] == "div" || parts[0] == "rem") && !of_floats) i.part = Part::kIntegerDivision;
    if ((parts[0] == "div" || parts[0] == "rcp") && of_floats && plain.find(".rn.") != std::string::npos) i.part = Part::kExactDivision;
    if (parts[0] == "fma") i.part = Part::kProduct;
    i.run = found->second;
  }
  return true;
}

}  // namespace millrace::rnn::ptx
