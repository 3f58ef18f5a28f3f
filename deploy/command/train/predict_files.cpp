#include "deploy/command/train/predict_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/data/arrays.h"
#include "core/data/picture_files.h"
#include "core/plan/assemble.h"
#include "core/train/checkpoint.h"
#include "core/train/data_facts.h"
#include "core/train/evaluate.h"
#include "core/train/segment_state.h"
#include "deploy/command/line/csv.h"
#include "deploy/devices/device_registry.h"
#include "deploy/session/run_formats.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTogether = 256;

struct Ranked {
  int64_t index = 0;
  double probability = 0;
};

// The likeliest classes, ties in the order of the classes.
std::vector<Ranked> likeliest(std::span<const float> scores, int64_t top) {
  const float most = *std::ranges::max_element(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - static_cast<double>(most));
  std::vector<Ranked> ranked(scores.size());
  for (size_t c = 0; c < scores.size(); ++c)
    ranked[c] = {static_cast<int64_t>(c), std::exp(static_cast<double>(scores[c]) - static_cast<double>(most)) / sum};
  std::ranges::stable_sort(ranked, std::ranges::greater{}, [&](const Ranked& one) { return item(scores, one.index); });
  ranked.resize(to_size(std::min<int64_t>(top, static_cast<int64_t>(ranked.size()))));
  return ranked;
}

bool is_array(const fs::path& path) { return path.extension() == ".npy"; }

// Folders become the files below them whose names are those of pictures or arrays, in order.
std::vector<fs::path> files_of(const std::vector<std::string>& given) {
  std::vector<fs::path> files;
  for (const std::string& name : given) {
    if (!fs::exists(name)) fail(ErrorCode::kNotFound, "{}: no such file or folder", name);
    if (!fs::is_directory(name)) {
      files.emplace_back(name);
      continue;
    }
    std::vector<fs::path> below;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(name)) {
      const bool wanted = is_picture_name(entry.path()) || is_array(entry.path());
      if (wanted && entry.is_regular_file()) below.push_back(entry.path());
    }
    if (below.empty()) fail(ErrorCode::kNotFound, "{}: no .jpg, .jpeg, .png or .npy file below it", name);
    std::ranges::sort(below);
    files.insert(files.end(), below.begin(), below.end());
  }
  return files;
}

class Asked {
 public:
  explicit Asked(const FilePredictionFlags& flags)
      : flags_(flags),
        content_(load_checkpoint(flags.checkpoint, flags.last_weights ? WhichWeights::kLast : WhichWeights::kAverage)),
        facts_(data_facts(content_.facts.attributes)) {
    const Model model = parse_model(content_.model_text, "model.textproto");
    graph_ = std::make_unique<Graph>(model);
    if (graph_->shape_of(graph_->scores()).plane() != 1)
      fail(ErrorCode::kUsage, "the checkpoint's network scores {} places of a sample, --files asks for one answer; use --data",
           graph_->shape_of(graph_->scores()).plane());
    const Cluster cluster = find_cluster(flags.cluster);
    if (cluster.devices.size() != 1)
      fail(ErrorCode::kUsage, "--cluster {}: {} devices, but files are asked about on one; name one, such as cpu", flags.cluster,
           cluster.devices.size());
    const std::string formats = formats_file_of(flags.checkpoint);
    device_ = with_formats(open_device(cluster.devices.front().device, {.threads = flags.threads}),
                           formats.empty() ? LayerFormats{} : formats_from(formats, model));
    prepare();
    if (facts_.pictures) {
      form_ = *facts_.pictures;
    } else if (model.input_kind == InputKind::kImage && (model.input.channels == 1 || model.input.channels == 3)) {
      form_ = PictureForm{.shape = model.input};
    }
  }

  int run() {
    if (flags_.csv) fmt::print("file,sample,rank,class,name,probability\n");
    for (const fs::path& file : files_of(flags_.files)) {
      if (is_array(file)) {
        ask_waiting();
        ask_array(file);
        continue;
      }
      read_picture_of(file);
      if (waiting_.size() == kMostTogether) ask_waiting();
    }
    ask_waiting();
    if (damaged_ > 0 && answered_ == 0) fail(ErrorCode::kMalformed, "no file could be read; the warnings above say why");
    if (damaged_ > 0) log::warning("{} of {} files are damaged and left out", damaged_, damaged_ + answered_);
    return 0;
  }

 private:
  void prepare() {
    PlanRequest request;
    request.cluster = find_cluster(flags_.cluster);
    request.mini_batch = request.micro_batch = flags_.micro_batch;
    request.optimizer.kind = OptimizerKind::kSgd;
    segment_.reset();
    plan_ = single_device_plan(*graph_, request);
    segment_ = std::make_unique<SegmentExecutor>(plan_, *graph_, 0, *device_);
    write_weights(*segment_, *graph_, content_.weights);
  }

  void read_picture_of(const fs::path& file) {
    if (!form_)
      fail(ErrorCode::kMismatch, "{}: the checkpoint's network takes {}, which no picture becomes; give .npy files", file.string(),
           text_of(graph_->model().input));
    const auto each = to_size(form_->shape.elements());
    pixels_.resize((waiting_.size() + 1) * each);
    try {
      read_picture(file, *form_, std::span(pixels_).last(each));
    } catch (const Error& error) {
      pixels_.resize(waiting_.size() * each);
      if (flags_.damaged_is_fatal || error.code() != ErrorCode::kMalformed) throw;
      ++damaged_;
      log::warning("{}", error.what());
      if (flags_.json) fmt::print("{}\n", nlohmann::ordered_json{{"file", file.string()}, {"error", error.what()}}.dump());
      return;
    }
    waiting_.push_back(file.string());
  }

  void ask_waiting() {
    if (waiting_.empty()) return;
    Dataset data;
    data.name = "files";
    data.shape = form_->shape;
    data.images = std::move(pixels_);
    data.labels.assign(waiting_.size(), 0);
    ask(data, waiting_, false);
    pixels_ = {};
    waiting_.clear();
  }

  void ask_array(const fs::path& file) {
    const InputKind kind = graph_->model().input_kind;
    const NpyArray array = parse_npy(read_bytes(file), file.string());
    Dataset data = dataset_from(array,
                                kind == InputKind::kFeatures ? ArrayLayout::kSteps
                                : kind == InputKind::kTokens ? ArrayLayout::kIds
                                                             : ArrayLayout::kGuess,
                                file.string());
    if (kind == InputKind::kTokens) {
      const int64_t known = tokens_known();
      if (data.vocabulary > known)
        fail(ErrorCode::kMismatch, "{}: id {}, but the checkpoint's network knows {} tokens", file.string(), data.vocabulary - 1, known);
      data.vocabulary = known;
    }
    ask(data, std::vector<std::string>(to_size(data.size()), file.string()), true);
  }

  int64_t tokens_known() const {
    for (const Layer& layer : graph_->model().layers)
      if (const auto* const embedding = std::get_if<Embedding>(&layer.operation)) return embedding->vocabulary;
    return graph_->classes();
  }

  void ask(Dataset& data, const std::vector<std::string>& files, bool several) {
    data.classes = graph_->classes();
    if (!data.sequences) {
      if (!facts_.normalisation)
        fail(ErrorCode::kMismatch,
             "the checkpoint does not say how its data was normalised; it was written by an older version. Ask it with "
             "--data, or train on from it");
      data.normalisation = *facts_.normalisation;
      // A grey network may have been trained on what were colours, but not the other way round.
      if (data.normalisation.mean.size() != to_size(data.shape.channels))
        fail(ErrorCode::kMismatch, "{}: {} channels, the checkpoint's data had {}", files.front(), data.shape.channels,
             data.normalisation.mean.size());
    }
    const AdaptedModel adapted = adapt(graph_->model(), form_of(data));
    Model longer = graph_->model();
    longer.input.height = adapted.model.input.height;
    const bool only_steps_differ = longer.input_kind != InputKind::kImage && adapted.model == longer;
    if (only_steps_differ && !(longer == graph_->model())) {
      graph_ = std::make_unique<Graph>(longer);
      prepare();
    }
    if (!(adapted.model == graph_->model()))
      fail(ErrorCode::kMismatch, "{}: {}, but the checkpoint's network takes {}", files.front(), text_of(data.shape),
           text_of(graph_->model().input));
    evaluate_fully(*segment_, *graph_, plan_, data, adapted.transform, {}, [&](const SampleResult& result) {
      ++answered_;
      print(item(files, result.sample), several ? result.sample : -1, likeliest(result.scores, flags_.top));
    });
  }

  void print(const std::string& file, int64_t sample, const std::vector<Ranked>& ranked) const {
    if (flags_.json) {
      nlohmann::ordered_json line = {{"file", file}};
      if (sample >= 0) line["sample"] = sample;
      line["predictions"] = nlohmann::ordered_json::array();
      for (const Ranked& one : ranked)
        line["predictions"].push_back({{"class", one.index}, {"name", facts_.class_name(one.index)}, {"probability", one.probability}});
      fmt::print("{}\n", line.dump());
      return;
    }
    for (size_t r = 0; r < ranked.size(); ++r) {
      const std::string name = facts_.class_name(ranked[r].index);
      if (flags_.csv) {
        fmt::print("{},{},{},{},{},{}\n", csv_text(file), sample >= 0 ? fmt::format("{}", sample) : "", r + 1, ranked[r].index,
                   csv_text(name), csv_number(ranked[r].probability));
      } else {
        const std::string shown = r > 0 ? "" : sample >= 0 ? fmt::format("{} [{}]", file, sample) : file;
        fmt::print("{:<40} {:<24} {:.4f}\n", shown, name, ranked[r].probability);
      }
    }
  }

  const FilePredictionFlags& flags_;
  CheckpointContent content_;
  DataFacts facts_;
  std::unique_ptr<Graph> graph_;
  Plan plan_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<SegmentExecutor> segment_;
  std::optional<PictureForm> form_;
  std::vector<std::string> waiting_;  // pictures that are read, with their pixels
  std::vector<uint8_t> pixels_;
  int64_t answered_ = 0, damaged_ = 0;
};

}  // namespace

int predict_files(const FilePredictionFlags& flags) { return Asked(flags).run(); }

}  // namespace millrace
