#include "fpga/sbe/phases/blocked_forward.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {

namespace {

class Engine {
 public:
  Engine(const SbeConfig& config, const FixedRecurrent& layer, const WeightImage& image, const RecurrentRun& run,
         std::span<const int16_t> x, RecurrentState& state, RecurrentCounters& counters, BlockedTraffic& traffic)
      : config_(config),
        layer_(layer),
        image_(image),
        run_(run),
        x_(x),
        state_(state),
        next_(state.hidden),
        counters_(counters),
        traffic_(traffic),
        slots_(to_size(std::max<int64_t>(config.slots, 1))),
        store_(to_size(config.vectors() * config.shape.rows())),
        side_(layer.cell == CellKind::kGru ? to_size(config.vectors() * layer.hidden) : 0),
        units_(layer.projection > 0 ? to_size(layer.hidden) : 0),
        output_(to_size(config.vectors() * layer.features())) {
    for (const ImageBlock& block : image.blocks)
      block_first_.push_back(block_first_.empty() ? 0 : block_first_.back() + last_chunks_), last_chunks_ = block.columns.chunks;
    for (int64_t vector = 0; vector < config.vectors() && !run.sums.empty(); ++vector)
      for (int64_t row = 0; row < layer.rows(); ++row)
        fast_item(store_, vector * layer.rows() + row)
            .add(fast_item(run.sums, (vector % run.streams * run.steps + vector / run.streams) * layer.rows() + row));
    pinned_words_.assign(image.words.begin() + image.pinned.first, image.words.begin() + image.pinned.first + image.pinned.words);
  }

  std::vector<int16_t> run() {
    for (const BlockJob& job : jobs_of(config_)) do_job(job);
    traffic_.output_words += static_cast<int64_t>(output_.size());
    return std::move(output_);
  }

 private:
  struct Sum {
    int32_t built = 0;
    int64_t exact = 0;  // for the counters alone
    void add(int64_t amount) {
      built = wrapped(int64_t{built} + amount);
      exact += amount;
    }
  };

  struct Part {
    const std::vector<int16_t>* words = nullptr;
    int64_t first_chunk = 0;
    ColumnBlock columns;
  };

  void do_job(const BlockJob& job) {
    std::vector<Part> parts;
    for (int64_t block = job.first_block; block < job.first_block + job.blocks; ++block) {
      const auto at = to_size(block);
      std::vector<int16_t>& slot = fast_item(slots_, loads_++ % config_.slots);
      const ImageBlock& from = image_.blocks[at];
      slot.assign(image_.words.begin() + from.first, image_.words.begin() + from.first + from.words);
      traffic_.weight_words += from.words;
      parts.push_back({&slot, block_first_[at], from.columns});
    }
    if (job.reads_pinned) {
      const int64_t first = block_first_.empty() ? 0 : block_first_.back() + last_chunks_;
      parts.push_back({&pinned_words_, first, image_.pinned.columns});
    }
    for (int64_t vector = job.first_vector; vector < job.first_vector + job.vectors; ++vector) {
      const int64_t stream = vector % run_.streams, step = vector / run_.streams;
      for (const Part& part : parts) {
        const int64_t first = part.first_chunk * config_.columns, chunks = part.columns.chunks - part.columns.hidden;
        traffic_.input_words += std::clamp<int64_t>(layer_.inputs - first, 0, chunks * config_.columns);
      }
      for (int64_t group = 0; group < config_.groups(); ++group) visit(parts, stream, step, group);
      const bool ends = parts.back().first_chunk + parts.back().columns.chunks == config_.input_chunks() + config_.hidden_chunks();
      if (ends && step < run_.valid_steps(stream))
        std::copy_n(next_.begin() + stream * layer_.features(), layer_.features(), state_.hidden.begin() + stream * layer_.features());
    }
  }

  // The chunks of the job's blocks for one vector and one group of rows.
  void visit(const std::vector<Part>& parts, int64_t stream, int64_t step, int64_t group) {
    const int64_t vector = step * run_.streams + stream, rows = rows_of_group(config_, group), columns = config_.columns;
    const int64_t gates = layer_.gates(), inputs = config_.input_chunks();
    int64_t chunk = 0;
    for (const Part& part : parts) {
      // Of a part the words of the groups before come first.
      const int16_t* weights = part.words->data() + group * config_.row_lanes * part.columns.chunks * columns;
      for (int64_t i = 0; i < part.columns.chunks; ++i) {
        chunk = part.first_chunk + i;
        const bool of_x = chunk < inputs;
        const int64_t at = (of_x ? chunk : chunk - inputs) * columns;
        const int64_t all = of_x ? layer_.inputs : layer_.features();
        const int16_t* values =
            of_x ? x_.data() + (stream * run_.steps + step) * layer_.inputs : state_.hidden.data() + stream * layer_.features();
        for (int64_t lane = 0; lane < rows; ++lane) {
          int64_t sum = 0;
          for (int64_t column = 0; column < columns; ++column)
            sum += int32_t{*weights++} * (at + column < all ? int32_t{values[at + column]} : 0);
          const int64_t row = group * config_.row_lanes + lane;
          const bool apart = layer_.cell == CellKind::kGru && !of_x && row % gates == 2;
          (apart ? fast_item(side_, vector * layer_.hidden + row / gates) : fast_item(store_, vector * config_.shape.rows() + row))
              .add(sum);
        }
      }
    }
    if (chunk + 1 == inputs + config_.hidden_chunks()) finish(stream, step, group);
  }

  // The tail: a group's sums leave for their cells.
  void finish(int64_t stream, int64_t step, int64_t group) {
    if (step >= run_.valid_steps(stream)) return;
    const int64_t vector = step * run_.streams + stream, gates = layer_.gates();
    const int64_t first = group * config_.row_lanes / gates, units = rows_of_group(config_, group) / gates;
    std::array<int64_t, 4> sums{};
    for (int64_t unit = first; unit < first + units; ++unit) {
      const auto bounded = [&](Sum sum, int32_t bias) {
        sum.add(bias);
        MILLRACE_CHECK(sum.built == wrapped(sum.exact), "sums that do not wrap alike");
        return sum.exact;
      };
      for (int64_t gate = 0; gate < gates; ++gate) {
        const int64_t row = unit * gates + gate;
        fast_item(sums, gate) = bounded(fast_item(store_, vector * config_.shape.rows() + row), fast_item(layer_.bias, row));
      }
      const bool gru = layer_.cell == CellKind::kGru;
      const int64_t hidden_sum = gru ? bounded(fast_item(side_, vector * layer_.hidden + unit), fast_item(layer_.hidden_bias, unit)) : 0;
      const auto place = to_size(stream * layer_.hidden + unit);
      int32_t* cell = state_.cell.empty() ? nullptr : &state_.cell[place];
      const bool projects = layer_.projection > 0;
      const int16_t h = unit_step(layer_, sums, hidden_sum, cell, projects ? int16_t{0} : state_.hidden[place], counters_);
      if (projects) {
        fast_item(units_, unit) = h;
      } else {
        leave(stream, step, unit, h);
      }
    }
    if (layer_.projection > 0 && group + 1 == config_.groups()) project(stream, step);
  }

  // The second matrix, of all units of a vector.
  void project(int64_t stream, int64_t step) {
    for (int64_t feature = 0; feature < layer_.features(); ++feature) {
      Sum sum;
      for (int64_t unit = 0; unit < layer_.hidden; ++unit)
        sum.add(int32_t{fast_item(layer_.projection_weight, feature * layer_.hidden + unit)} * int32_t{fast_item(units_, unit)});
      leave(stream, step, feature, cell_sum(sum.exact, layer_.projection_shift(), counters_.outputs));
    }
  }

  void leave(int64_t stream, int64_t step, int64_t feature, int16_t h) {
    fast_item(next_, stream * layer_.features() + feature) = h;
    fast_item(output_, (stream * run_.steps + step) * layer_.features() + feature) = h;
  }

  const SbeConfig& config_;
  const FixedRecurrent& layer_;
  const WeightImage& image_;
  const RecurrentRun& run_;
  std::span<const int16_t> x_;
  RecurrentState& state_;
  std::vector<int16_t> next_;  // h of this step, while the one before is read
  RecurrentCounters& counters_;
  BlockedTraffic& traffic_;
  std::vector<std::vector<int16_t>> slots_;
  std::vector<int16_t> pinned_words_;
  std::vector<int64_t> block_first_;  // chunk
  int64_t last_chunks_ = 0, loads_ = 0;
  std::vector<Sum> store_;      // [vector][row]
  std::vector<Sum> side_;       // [vector][unit]: gru's U h'
  std::vector<int16_t> units_;  // of a vector that is projected
  std::vector<int16_t> output_;
};

}  // namespace

std::vector<BlockJob> jobs_of(const SbeConfig& config) {
  std::vector<BlockJob> jobs;
  const std::vector<ColumnBlock> blocks = blocks_of(config);
  const int64_t vectors = config.vectors();
  int64_t at = 0;
  const auto all = static_cast<int64_t>(blocks.size());
  for (; at < all && fast_item(blocks, at).hidden == 0; ++at) jobs.push_back({at, 1, 0, vectors, false, false});
  const int64_t hidden = all - at;
  const bool pinned = config.pinned != Pinned::kNone;
  if (pinned || hidden <= std::max<int64_t>(2, config.slots - 1)) {
    jobs.push_back({at, hidden, 0, vectors, true, pinned});
    return jobs;
  }
  for (int64_t step = 0; step < config.steps; ++step)
    for (int64_t block = at; block < all; ++block) jobs.push_back({block, 1, step * config.streams, config.streams, true, false});
  return jobs;
}

std::vector<int16_t> blocked_forward(const SbeConfig& config, const FixedRecurrent& layer, const WeightImage& image,
                                     const RecurrentRun& run, std::span<const int16_t> x, RecurrentState& state,
                                     RecurrentCounters& counters, BlockedTraffic& traffic) {
  check(config, layer);
  MILLRACE_CHECK(run.sums.size() == to_size(config.sums_arrive ? config.vectors() * layer.rows() : 0), "{} sums", run.sums.size());
  MILLRACE_CHECK(run.streams == config.streams && run.steps == config.steps, "a batch of another size");
  MILLRACE_CHECK(x.size() == to_size(config.vectors() * layer.inputs), "{} inputs", x.size());
  return Engine(config, layer, image, run, x, state, counters, traffic).run();
}

}  // namespace millrace
