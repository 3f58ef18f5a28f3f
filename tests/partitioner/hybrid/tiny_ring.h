// A drawn network on a drawn ring, and what tries every cut and every amount of parameters over every link.
//
//   TinyRing ring(random, /*two_sizes=*/false);
//   EXPECT_NEAR(solved.period, ring.least(), 1e-9);
//
// It knows the network as rows of numbers and shares no code with the solver: units, demands and loads are counted here again.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/plan/schedule.h"
#include "partitioner/hybrid/joint_search.h"
#include "tests/partitioner/hybrid/tiny_models.h"

namespace millrace::testing_support {

// A drawn chain of 1 x 1 convolutions and a dense layer on a drawn ring.
class TinyRing {
 public:
  static constexpr double kElementBits = 32;
  static constexpr int64_t kPlane = 4;  // of 2 x 2 maps
  static constexpr double kEndless = 1e9;

  struct TinyLayer {
    int64_t inputs = 0;
    int64_t outputs = 0;
    int64_t input_plane = kPlane;
    int64_t sum_plane = kPlane;
    int64_t after = 0;       // layers after the sum
    bool by_output = false;  // the first layer, of few channels of the image
    bool dense = false;

    int64_t units() const { return by_output ? outputs : inputs * outputs; }
  };

  struct Load {
    double forward = 0;
    double backward = 0;
  };

  struct Stretch {
    double seconds = 0;
    double engines = 0;
    double fixed = 0;
    std::array<int64_t, 2> weights{};  // of one byte, of another size
  };

  TinyRing(TinyInstances& random, bool two_sizes) {
    Model model;
    model.name = "tiny";
    model.input = {random.between(1, 3), 2, 2};
    std::string last(kInputName);
    const int64_t convolutions = random.between(1, 3);
    int64_t channels = model.input.channels;
    const auto add = [&](std::string name, Operation operation) {
      model.layers.push_back({.name = name, .operation = std::move(operation), .inputs = {last}});
      last = std::move(name);
    };
    for (int64_t i = 0; i < convolutions; ++i) {
      const int64_t out = random.between(1, 3);
      add("conv" + std::to_string(i), Conv2d{.out_channels = out, .kernel_h = 1, .kernel_w = 1});
      layers.push_back({.inputs = channels, .outputs = out, .by_output = i == 0});
      if (random.chance(0.4)) {
        add("relu" + std::to_string(i), Activation{});
        ++layers.back().after;
      }
      channels = out;
    }
    add("pool", GlobalPool{});
    add("flat", Flatten{});
    layers.back().after += 2;
    add("fc", Dense{.out_features = 2});
    add("loss", SoftmaxCrossEntropy{});
    layers.push_back({.inputs = channels, .outputs = 2, .input_plane = 1, .sum_plane = 1, .after = 1, .dense = true});
    graph = std::make_unique<Graph>(model);
    double all = 0;
    for (const TinyLayer& layer : layers) all += static_cast<double>(layer.inputs * layer.outputs);

    const int64_t devices = random.between(1, two_sizes ? 3 : 4);
    const bool homogeneous = random.chance(0.4);
    tight = random.chance(0.5);
    const bool dedicated = random.chance(0.3);
    const bool mixed = !two_sizes && devices > 1 && random.chance(0.15);
    // What comes last is the larger, or the smaller: then to keep as much as fits of what comes first is not best.
    dense_weight_bytes = !two_sizes ? 1 : random.chance(0.5) ? 2 : 0.5;
    for (int64_t d = 0; d < devices; ++d) {
      if (d == 0 || !homogeneous) {
        settings.seconds_per_pair = random.real(0.2e-3, 3e-3);
        settings.memory =
            tight ? std::floor(random.real(0.4, 1.6) * all / static_cast<double>(devices)) + static_cast<double>(random.between(2, 8))
                  : 1e9;
        // Just short of a whole element more.
        if (tight && random.chance(0.5)) settings.memory *= 0.99;
        settings.quantum = random.chance(0.15) ? 2 : 1;
        settings.dedicated = dedicated;
        settings.engines = static_cast<double>(random.between(2, 30));
        settings.dense_off_chip = random.chance(0.3);
        settings.dense_weight_bytes = dense_weight_bytes;
        settings.memory_name = mixed && random.chance(0.5) ? "other_bytes" : "memory_bytes";
      }
      each.push_back(settings);
      owned.push_back(std::make_unique<DrawnCostModel>(settings));
      task.models.push_back(owned.back().get());
    }
    task.graph = graph.get();
    task.cluster = uniform_cluster("drawn", devices);
    task.cluster.links = random.links(devices);
    task.options.allow_empty = random.chance(0.3);
    task.options.strategy = random.chance(0.1) ? Strategy::kLayer : Strategy::kHybrid;
    task.options.micro_batch = 1;
    task.options.mini_batch = 16;
    const int64_t window = default_windows(devices, task.options.alignment, 16).front();
    passes_ =
        static_cast<double>(parameter_passes_per_mini_batch({.alignment = task.options.alignment, .micro_batches = 16, .window = window})) /
        16;
    for (const TinyLayer& layer : layers) begins_.push_back(end_), end_ += layer.units();
  }

  // Whether any cuts and homes keep the period.
  bool exists(double period) const { return exists(period, period); }
  bool exists(double compute, double link) const {
    return search({compute, link}, 1, [](double) {});
  }
  // Also where no device's memory is fuller than a share, and every parameter stays with its user, by FPDeep's rule.
  bool exists_at_home(double period, double share) const {
    return search(
        {period, period}, share, [](double) {}, false);
  }

  // The least period of any cuts and homes, where devices take turns; infinite when there are none.
  double least() const {
    double best = std::numeric_limits<double>::infinity();
    // A first walk that anything keeps, then only what is faster.
    search({kEndless, kEndless}, 1, [&](double period) { best = std::min(best, period); });
    return best;
  }

  std::vector<TinyLayer> layers;
  std::unique_ptr<Graph> graph;
  PlanTask task;
  bool tight = false;
  double dense_weight_bytes = 1;
  std::vector<DrawnCostModel::Settings> each;

 private:
  size_t layer_at(int64_t position) const {
    size_t layer = layers.size() - 1;
    while (begins_[layer] > position) --layer;
    return layer;
  }
  bool boundary(int64_t position) const { return position == end_ || begins_[layer_at(position)] == position; }

  Load load_at(int64_t position) const {
    if (position == end_) return {};
    const size_t l = layer_at(position);
    const TinyLayer& layer = layers[l];
    const int64_t inside = position - begins_[l];
    int64_t forward = layer.inputs * layer.input_plane;
    int64_t backward = l > 0 ? forward : 0;
    if (inside > 0) {
      const int64_t done = layer.by_output ? 0 : inside / layer.outputs;
      const int64_t begun = layer.by_output ? inside : done > 0 ? layer.outputs : inside;
      forward += begun * layer.sum_plane - done * layer.input_plane;
      backward += begun * layer.sum_plane - (l > 0 ? done * layer.input_plane : 0);
    }
    return {kElementBits * static_cast<double>(forward), kElementBits * static_cast<double>(backward)};
  }

  bool may_cut(size_t link, int64_t position) const {
    if (boundary(position)) return true;
    if (task.options.strategy == Strategy::kLayer) return false;
    const int64_t quantum = std::max(each[link].quantum, each[link + 1].quantum);
    const size_t l = layer_at(position);
    const int64_t inside = position - begins_[l];
    if (quantum == 1) return true;
    return layers[l].by_output ? inside % quantum == 0 : inside % (quantum * layers[l].outputs) == 0;
  }

  // `at_home`: a stretch that keeps its weights off chip is given no more convolutions than would fit on chip.
  Stretch stretch(size_t device, int64_t from, int64_t to, double period, bool at_home) const {
    const DrawnCostModel::Settings& board = each[device];
    Stretch sum;
    bool off_chip = false;
    for (size_t l = 0; l < layers.size(); ++l) {
      const TinyLayer& layer = layers[l];
      const int64_t first = std::max<int64_t>(from - begins_[l], 0);
      const int64_t last = std::min(to - begins_[l], layer.units());
      if (first >= last) continue;
      off_chip = off_chip || (layer.dense && board.dense_off_chip);
      const int64_t pairs = (last - first) * (layer.by_output ? layer.inputs : 1);
      const int64_t held = layer.by_output ? layer.inputs : (last - 1) / layer.outputs - first / layer.outputs + 1;
      const double after = last == layer.units() ? static_cast<double>(layer.after) : 0;
      const double work = static_cast<double>(pairs) * board.seconds_per_pair + 0.1 * board.seconds_per_pair * after;
      if (board.dedicated) {
        sum.engines += std::ceil(work / period);
      } else {
        sum.seconds += work;
      }
      sum.fixed += 2 * static_cast<double>(held);
      if (!at_home || !layer.dense || !board.dense_off_chip) sum.weights[layer.dense && dense_weight_bytes != 1 ? 1 : 0] += pairs;
    }
    if (off_chip && !at_home) sum.weights = {};
    return sum;
  }

  double seconds_of(size_t link, const Load& load, int64_t elements) const {
    const LinkEntry& entry = task.cluster.links[link];
    const double forward = load.forward + std::ceil(static_cast<double>(elements) * kElementBits * passes_);
    const double backward = load.backward + std::ceil(static_cast<double>(elements) * kElementBits);
    const auto rate = [](double gbps) { return std::round(gbps * 1e9); };
    double seconds = std::max(forward / rate(entry.forward_gbps), backward / rate(entry.backward_gbps));
    if (entry.shared_gbps > 0) seconds = std::max(seconds, (forward + backward) / rate(entry.shared_gbps));
    return seconds;
  }

  // From the first device on: what device d stores is its own, more what comes from downstream, less what it sends upstream.
  bool search(const Periods& limit, double share, const std::function<void(double)>& found, bool may_move = true) const {
    bool any = false;
    double best = std::max(limit.compute, limit.link);
    const bool two_memories =
        std::any_of(each.begin(), each.end(), [&](const auto& one) { return one.memory_name != each[0].memory_name; });
    const std::function<void(size_t, int64_t, std::array<int64_t, 2>, double)> extend = [&](size_t d, int64_t from,
                                                                                            std::array<int64_t, 2> sent, double slowest) {
      const bool last = d + 1 == each.size();
      for (int64_t to = last ? end_ : from; to <= end_; ++to) {
        if (to == from && !(task.options.allow_empty && boundary(from))) continue;
        if (!last && !may_cut(d, to)) continue;
        const Stretch own = stretch(d, from, to, limit.compute, !may_move);
        const double memory = share * each[d].memory;
        if (own.seconds > std::min(best, limit.compute) || own.engines > (each[d].dedicated ? each[d].engines : 1e30) || own.fixed > memory)
          break;
        // Two sorts of weights: of one byte and of another size; or of one memory and of the other.
        std::array<int64_t, 2> mine = own.weights;
        std::array<double, 2> bytes{1, dense_weight_bytes};
        std::array<bool, 2> stored{true, true};
        if (two_memories) {
          const size_t kind = each[d].memory_name == each[0].memory_name ? 0 : 1;
          if (kind == 1) mine = {0, own.weights[0]};
          stored = {kind == 0, kind == 1};
          bytes = {1, 1};
        }
        const Load load = last ? Load{} : load_at(to);
        const std::array<int64_t, 2> most = last || !may_move ? std::array<int64_t, 2>{0, 0} : downstream(to, two_memories);
        for (int64_t a = 0; a <= most[0]; ++a) {
          for (int64_t b = 0; b <= most[1]; ++b) {
            const std::array<int64_t, 2> come{a, b};
            double stays = own.fixed;
            bool possible = true;
            for (size_t s = 0; s < 2; ++s) {
              const int64_t kept = mine[s] + come[s] - sent[s];
              possible = possible && kept >= 0 && (stored[s] || kept == 0);
              stays += static_cast<double>(kept) * bytes[s];
            }
            if (!possible || stays > memory) continue;
            double period = std::max(slowest, own.seconds);
            if (last) {
              if (period > best) continue;
              any = true;
              best = std::min(best, period);
              found(period);
              continue;
            }
            const double carried = seconds_of(d, load, a + b);
            period = std::max(period, carried);
            if (period > best || carried > limit.link) continue;
            extend(d + 1, to, come, period);
          }
        }
      }
    };
    extend(0, 0, {0, 0}, 0);
    return any;
  }

  // At most so many weights can come from behind a cut.
  std::array<int64_t, 2> downstream(int64_t position, bool two_memories) const {
    std::array<int64_t, 2> sum{};
    for (size_t l = 0; l < layers.size(); ++l) {
      const int64_t units = std::max<int64_t>(0, layers[l].units() - std::max<int64_t>(position - begins_[l], 0));
      sum[layers[l].dense && dense_weight_bytes != 1 ? 1 : 0] += units * (layers[l].by_output ? layers[l].inputs : 1);
    }
    if (two_memories) sum[1] = sum[0];
    return sum;
  }

  DrawnCostModel::Settings settings;
  std::vector<std::unique_ptr<DrawnCostModel>> owned;
  std::vector<int64_t> begins_;
  int64_t end_ = 0;
  double passes_ = 1;
};

}  // namespace millrace::testing_support
