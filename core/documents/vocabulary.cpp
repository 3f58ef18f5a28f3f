// The words for the enumerations of plan.h, as flags, reports and messages use them, and what little they imply.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/documents/plan.h"

namespace millrace {
namespace {

template <typename Enumeration, size_t kCount>
Enumeration named(std::string_view name, const std::array<Enumeration, kCount>& all, std::string_view what, ErrorCode code) {
  const auto found = std::find_if(all.begin(), all.end(), [&](Enumeration value) { return name_of(value) == name; });
  if (found != all.end()) return *found;
  std::vector<std::string> known;
  for (const Enumeration value : all) known.emplace_back(name_of(value));
  fail(code, "{} \"{}\" does not exist{}", what, name, suggestion(name, known));
}

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "FP";
    case Phase::kErrorBack: return "EB";
    case Phase::kParameterGradient: return "PG";
  }
  return "unknown";
}

std::string_view name_of(Stream stream) {
  switch (stream) {
    case Stream::kActivation: return "activation";
    case Stream::kPartial: return "partial";
    case Stream::kError: return "error";
    case Stream::kParameter: return "parameter";
    case Stream::kGradient: return "gradient";
    case Stream::kLabel: return "label";
    case Stream::kControl: return "control";
    case Stream::kRecord: return "record";
    case Stream::kState: return "state";
  }
  return "unknown";
}

std::string_view name_of(Direction direction) { return direction == Direction::kForward ? "forward" : "backward"; }

std::string_view name_of(Alignment alignment) {
  switch (alignment) {
    case Alignment::kFpdeep: return "fpdeep";
    case Alignment::kFlush: return "flush";
    case Alignment::kOneForwardOneBackward: return "1f1b";
    case Alignment::kStash: return "stash";
    case Alignment::kZeroBubble: return "zero-bubble";
  }
  return "unknown";
}

Alignment alignment_from(std::string_view name) {
  constexpr std::array kAll = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                               Alignment::kZeroBubble};
  return named(name, kAll, "alignment", ErrorCode::kUsage);
}

bool drains(Alignment alignment) {
  switch (alignment) {
    case Alignment::kFlush:
    case Alignment::kOneForwardOneBackward:
    case Alignment::kZeroBubble: return true;
    case Alignment::kFpdeep:
    case Alignment::kStash: break;
  }
  return false;
}

std::string_view name_of(Accounting accounting) { return accounting == Accounting::kFull ? "full" : "fpdeep"; }

Accounting accounting_from(std::string_view name) {
  constexpr std::array kAll = {Accounting::kFull, Accounting::kFpdeep};
  return named(name, kAll, "accounting", ErrorCode::kUsage);
}

std::string_view name_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return "sgd";
    case OptimizerKind::kMomentum: return "momentum";
    case OptimizerKind::kNesterov: return "nesterov";
    case OptimizerKind::kAdam: return "adam";
    case OptimizerKind::kAdamW: return "adamw";
  }
  return "unknown";
}

OptimizerKind optimizer_from(std::string_view name) {
  constexpr std::array kAll = {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov, OptimizerKind::kAdam,
                               OptimizerKind::kAdamW};
  return named(name, kAll, "optimizer", ErrorCode::kUsage);
}

int OptimizerSettings::kind_slots() const {
  switch (kind) {
    case OptimizerKind::kSgd: return 0;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov: return 1;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW: return 2;
  }
  return 0;
}

std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat64: return "float64";
    case ElementType::kFloat32: return "float32";
    case ElementType::kFloat16: return "float16";
    case ElementType::kBfloat16: return "bfloat16";
    case ElementType::kFixed16: return "fixed16";
  }
  return "unknown";
}

ElementType element_type_from(std::string_view name) {
  constexpr std::array kAll = {ElementType::kFloat64, ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16,
                               ElementType::kFixed16};
  return named(name, kAll, "element type", ErrorCode::kMalformed);
}

int64_t bits_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat64: return 64;
    case ElementType::kFloat32: return 32;
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
    case ElementType::kFixed16: return 16;
  }
  return 0;
}

std::string_view name_of(StreamingUnit unit) {
  switch (unit) {
    case StreamingUnit::kRow: return "row";
    case StreamingUnit::kStep: return "step";
    case StreamingUnit::kSample: return "sample";
  }
  return "unknown";
}

std::string_view name_of(Split split) {
  switch (split) {
    case Split::kWhole: return "whole";
    case Split::kInputChannels: return "ICP";
    case Split::kOutputChannels: return "OCP";
  }
  return "unknown";
}

ChannelRange intersection(const ChannelRange& a, const ChannelRange& b) {
  const ChannelRange common{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return common.empty() ? ChannelRange{} : common;
}

ChannelRange hull(const ChannelRange& a, const ChannelRange& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

std::string text_of(const ChannelRange& range) { return fmt::format("[{}, {})", range.begin, range.end); }

}  // namespace millrace
