#include "gpu/device/algorithm_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "gpu/device/gpu_device.h"

namespace millrace::gpu {

namespace {

constexpr std::string_view kChannelsFirst = "channels-first", kChannelsLast = "channels-last";

std::vector<std::string_view> divided(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(by, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

}  // namespace

std::string convolution_key(const ConvolutionGeometry& g, ConvolutionPhase phase, Precision precision) {
  constexpr std::string_view kPhases[] = {"forward", "input-error", "weight-gradient"};
  return fmt::format("{} {} n{} {}x{}x{} -> {}x{}x{} kernel {}x{} stride {}x{} pad {}x{} dilation {}x{} groups {}", item(kPhases, phase),
                     name_of(precision), g.samples, g.inputs, g.height, g.width, g.outputs, g.output_height, g.output_width, g.kernel_h,
                     g.kernel_w, g.stride_h, g.stride_w, g.pad_h, g.pad_w, g.dilation_h, g.dilation_w, g.groups);
}

AlgorithmBook::AlgorithmBook(std::filesystem::path path, const Facts& facts)
    : path_(std::move(path)),
      owner_(one_line(fmt::format("algorithms and layouts of {} ({}), {}", facts.name, facts.architecture, facts.libraries))) {
  if (!path_.empty() && std::filesystem::exists(path_)) read();
}

void AlgorithmBook::read() {
  const std::string text = read_text(path_);
  const std::vector<std::string_view> lines = divided(text, '\n');
  if (lines.front() != owner_) {
    if (lines.front().starts_with("algorithms ")) return;  // of another GPU, or from before layouts were chosen
    fail(ErrorCode::kMalformed, "{}: line 1 is not of a file of GPU algorithms; name another file, or remove this one", path_.string());
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::vector<std::string_view> parts = divided(lines[i], '\t');
    ConvolutionChoice choice;
    if (parts.size() != 5 || !read_number(parts[1], choice.algorithm) || !read_number(parts[2], choice.workspace) ||
        (parts[3] != kChannelsFirst && parts[3] != kChannelsLast))
      fail(ErrorCode::kMalformed, "{}: line {} is not key, algorithm, workspace, layout and name; remove the file, it is made anew",
           path_.string(), i + 1);
    choice.channels_last = parts[3] == kChannelsLast;
    choice.name = parts[4];
    choices_[std::string(parts[0])] = std::move(choice);
  }
}

void AlgorithmBook::write() const {
  std::string text = owner_ + "\n";
  for (const auto& [key, choice] : choices_)
    text += fmt::format("{}\t{}\t{}\t{}\t{}\n", key, choice.algorithm, choice.workspace,
                        choice.channels_last ? kChannelsLast : kChannelsFirst, choice.name);
  write_atomically(path_, text);
}

const ConvolutionChoice* AlgorithmBook::find(const std::string& key, size_t most_workspace) const {
  const auto found = choices_.find(key);
  return found == choices_.end() || found->second.workspace > most_workspace ? nullptr : &found->second;
}

const ConvolutionChoice& AlgorithmBook::enter(const std::string& key, ConvolutionChoice choice) {
  choice.name = one_line(std::move(choice.name));
  const ConvolutionChoice& entered = choices_[key] = std::move(choice);
  if (!path_.empty()) write();
  return entered;
}

}  // namespace millrace::gpu
