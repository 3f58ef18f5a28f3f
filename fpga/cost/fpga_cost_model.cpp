#include "fpga/cost/fpga_cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/device/no_such_engine.h"
#include "core/plan/off_chip.h"
#include "core/plan/words_outside.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/cost/clock_time.h"
#include "fpga/common/cost/fabric_costs.h"
#include "fpga/conv_ce/engine_timing.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"
#include "fpga/conv_ce/rtl/weight_streams.h"
#include "fpga/conv_ce/shard_buffers.h"
#include "fpga/conv_ce/shard_packing.h"
#include "fpga/cost/built_blocks.h"
#include "fpga/cost/chained_steps.h"
#include "fpga/cost/dense_passes.h"
#include "fpga/cost/engine_memo.h"
#include "fpga/cost/fpga_resources.h"
#include "fpga/cost/layer_geometry.h"
#include "fpga/cost/recurrent_costs.h"
#include "fpga/cost/shard_use.h"
#include "fpga/sbe/rtl/cycle_model.h"

namespace millrace {

namespace {

constexpr double kLongestLifetime = 1e6;
constexpr double kGradientBytes = 4;  // of an element, outside: 32 bits are added up
constexpr size_t kExchanged = 5;      // from here on: of both kinds of blocks, at rates of exchange

int64_t whole_part_of(double share, int64_t amount) {
  return share == 1 ? amount : static_cast<int64_t>(std::ceil(share * static_cast<double>(amount)));
}

class FpgaCostModel final : public CostModel {
 public:
  FpgaCostModel(FpgaResources board, int64_t element_bits, const InferenceBatch& inference, std::shared_ptr<const GeneratedEngines> built)
      : board_(std::move(board)),
        element_bits_(element_bits),
        inference_(inference),
        infers_(inference.streams > 0),
        recurrent_(board_, element_bits, inference),
        built_(std::move(built)),
        steps_per_pass_(inference.steps) {
    const FabricUse once = interconnection_fabric();
    capacities_ = {{"dsp", infers_ ? board_.dsps : board_.engine_dsps()},
                   {"lut", board_.luts - once.luts},
                   {"ff", board_.flip_flops - once.flip_flops},
                   {"bram_bits", board_.on_chip_bits()},
                   {"dram_bytes", board_.off_chip_bytes}};
    if (board_.urams <= 0 || built_ == nullptr) return;
    for (const double rate : kExchangeRates)
      capacities_.push_back({fmt::format("bram36_with_{}_uram", rate), board_.bram36 + rate * board_.urams});
  }

  std::string device() const override { return board_.name; }
  const CostModel& among(std::span<const CostModel* const> working) const override {
    if (built_ == nullptr) return *this;
    const double slowest = slowest_clock(working);
    if (slowest == built_->slowest_clock_hz() || slowest <= 0) return *this;
    const std::scoped_lock lock(others_mutex_);
    std::unique_ptr<const FpgaCostModel>& other = at_other_clocks_[slowest];
    if (!other) other = std::make_unique<FpgaCostModel>(board_, element_bits_, inference_, built_->at_clock(slowest));
    return *other;
  }
  std::span<const NamedAmount> capacities() const override { return capacities_; }
  size_t parameter_memory() const override { return kOnChipMemory; }
  bool holds_parameters(size_t resource) const override { return resource == kOnChipMemory || resource >= kExchanged; }
  bool dedicated_engines() const override { return true; }

  std::vector<NamedAmount> inventory() const override {
    const double clock = static_cast<double>(board_.clock_hz);
    return {{"dsp_device", board_.dsps},
            {"multipliers", board_.engine_dsps() / board_.dsps_per_mac},
            {"clock_hz", clock},
            {"macs_per_second", board_.dsps / board_.dsps_per_mac * clock},
            {"bram36", board_.bram36},
            {"uram", board_.urams},
            {"lutram_lut", board_.lutram_luts},
            {"dram_bytes_per_second", board_.off_chip_bytes_per_second},
            {"watts_idle", board_.watts_idle},
            {"watts_per_gops", board_.watts_per_gops}};
  }

  std::vector<Constant> constants() const override {
    std::vector<Constant> constants = board_.constants;
    for (Constant& constant : fabric_constants()) constants.push_back(std::move(constant));
    for (Constant& constant : special_function_constants()) constants.push_back(std::move(constant));
    if (infers_)
      for (Constant& constant : sbe_constants())
        if (constant.name != "tail_latency_cycles") constants.push_back(std::move(constant));
    return constants;
  }

  double watts(double macs_per_second) const override { return board_.watts_idle + board_.watts_per_gops * 2e-9 * macs_per_second; }

  // A board streams rows, and the statistics of a micro-batch are there when its last row is through.
  std::string refusal(const Node& node) const override {
    if (std::string why = recurrent_.refusal(node); !why.empty()) return why;
    const auto* norm = std::get_if<BatchNorm>(&node.layer.operation);
    if (norm == nullptr || !node.trained || norm->statistics == Statistics::kRunning) return "";
    return "is a batch norm that is trained with the statistics of each micro-batch, for which a board would have to wait; plan with "
           "--batch-norm running, or set `frozen: true` for it in the model (its statistics are then constants, as in inference)";
  }

  bool keeps_off_chip(const Node& head) const override {
    const Role role = role_of(head.layer.operation);
    return role == Role::kProduct || role == Role::kLookUp;
  }

  std::string steps_refusal(const ShardQuestion& question) const override { return recurrent_.steps_refusal(question); }

  ShardDemand demand_of(const ShardQuestion& question) const override {
    if (recurrent_.counts(question)) return recurrent_.demand_of(question);
    if (question.streamed_words == StreamedWords::kBuilt) return demand_of(question, use_of(question, true));
    if (question.most_tiles > 0)
      for (const std::vector<LargerEngine> larger = larger_engines(question); const LargerEngine& engine : std::views::reverse(larger))
        if (engine.most_tiles <= question.most_tiles) return engine.demand;
    return demand_of(question, use_of(question, false));
  }

  // The ring's streams are equally wide.
  size_t kind_of_period(double seconds) const override { return built_ ? built_->width_for(seconds) : 0; }
  bool may_wait_outside() const override { return built_ && board_.off_chip_bytes_per_second > 0; }
  bool enlarges_engines(StreamedWords words) const override {
    return built_ && (board_.urams <= 0 || words == StreamedWords::kBuilt || counts_least(words));
  }
  bool divides(const Node& head) const override { return built_ == nullptr || built_->divides(head); }

  std::vector<LargerEngine> larger_engines(const ShardQuestion& question) const override {
    std::vector<LargerEngine> found;
    if (!built_ || recurrent_.counts(question)) return found;
    if (question.streamed_words == StreamedWords::kBuilt) return larger_built(question);
    if (question.streamed_words == StreamedWords::kLeastBuilt) return least_built(question);
    if (board_.urams > 0) return found;  // the least counts them all
    const Searched searched = searched_use(question, false);
    const ShardUse& smallest = searched.use;
    if (!smallest.built || !smallest.built->keeps_up) return found;
    const bool is_least = question.streamed_words == StreamedWords::kLeast;
    const ShardDemand of_smallest = demand_of(question, smallest);
    double least = of_smallest.amounts[0] < kNoSuchEngine ? of_smallest.amounts[kOnChipMemory] : kNoSuchEngine;
    std::vector<EngineMemory> memories = built_->larger_engines(*smallest.built, weights_at(question, smallest), is_least);
    found.reserve(memories.size());
    Searched with_another = searched;
    for (EngineMemory& memory : memories) {
      memory.streamed_bytes = smallest.streamed_bytes;
      // As wide as words can be.
      const double word_bits = is_least ? 0 : static_cast<double>(act_ram_word_bits(kMostEngineLanes));
      LargerEngine engine{memory.tiles, demand_with(question, with_another, memory, word_bits)};
      if (engine.demand.amounts[kOnChipMemory] >= least) continue;
      least = engine.demand.amounts[kOnChipMemory];
      found.push_back(engine);
    }
    return found;
  }

  ShardCost cost_of(const ShardQuestion& question) const override {
    if (recurrent_.counts(question)) return recurrent_.cost_of(question, capacities_);
    const ShardUse use = use_of(question, true);
    ShardCost cost;
    cost.unit = use.shard.unit;
    const OffChipWords words = words_built(question, use);
    add_phases(use, words, cost);
    add_resources(use, words, question, cost);
    cost.buffers = buffers_of(use);
    cost.act_ram_bits = static_cast<int64_t>(std::min(use.buffers.act_ram.bits + use.buffers.state.bits, 9e18));
    return cost;
  }

 private:
  // With what the special-function unit does.
  struct Searched {
    ShardUse use;
    double lane_logic = 0;
  };

  // As they are built, of this very shard.
  std::vector<LargerEngine> larger_built(const ShardQuestion& question) const {
    std::vector<LargerEngine> found;
    ShardQuestion of_smallest = question;
    of_smallest.most_tiles = 0;
    const Searched searched = searched_use(of_smallest, true);
    const ShardUse& smallest = searched.use;
    if (!smallest.built || !smallest.built->keeps_up || smallest.built->held.groups > 1) return found;
    const WeightsAt weights = weights_at(question, smallest);
    const ShardDemand of_smallest_one = demand_of(question, smallest);
    // One engine may have all multipliers of the board.
    const int64_t most = static_cast<int64_t>(board_.engine_dsps() / board_.dsps_per_mac) / (smallest.engines.count * tile_of(smallest));
    Searched with_another = searched;
    const auto consider = [&](const EngineMemory& engine) {
      LargerEngine larger{engine.tiles, demand_with(question, with_another, engine, 0)};
      // Of engines no larger some take no more memory, however it is counted, and read no more words.
      const auto undercuts = [&](const ShardDemand& known) {
        for (size_t i = 0; i < capacities_.size(); ++i)
          if (holds_parameters(i) && known.amounts[i] > larger.demand.amounts[i]) return false;
        return known.seconds <= larger.demand.seconds;
      };
      if (larger.demand.amounts[0] >= kNoSuchEngine || undercuts(of_smallest_one)) return;
      if (std::ranges::any_of(found, [&](const LargerEngine& known) { return undercuts(known.demand); })) return;
      found.push_back(larger);
    };
    for (const EngineMemory& engine : built_->larger_built(*smallest.built, weights, most, board_.urams > 0)) consider(engine);
    return found;
  }

  // All but the smallest, which is what the question's own answer has.
  std::vector<LargerEngine> least_built(const ShardQuestion& question) const {
    std::vector<LargerEngine> found;
    Searched searched = searched_use(question, false);
    const ShardUse& smallest = searched.use;
    if (!smallest.built || !smallest.built->keeps_up) return found;
    const std::optional<std::vector<EngineMemory>> all =
        built_->least_built(*smallest.built, weights_at(question, smallest), board_.urams > 0);
    for (size_t i = 1; all && i < all->size(); ++i) {
      LargerEngine larger{(*all)[i].tiles, demand_with(question, searched, (*all)[i], 0)};
      if (larger.demand.amounts[0] < kNoSuchEngine) found.push_back(larger);
    }
    return found;
  }

  // With another engine and its memory, which take the place of those that are there; the Act-RAM with some bits more.
  ShardDemand demand_with(const ShardQuestion& question, Searched& searched, const EngineMemory& memory, double more_bits) const {
    ShardUse& use = searched.use;
    use.built->reserved_tiles = memory.tiles;
    add_memory(question, memory, more_bits, use);
    add_logic(question, searched.lane_logic, use);
    return demand_of(question, use);
  }

  // Of an engine that is built.
  void add_memory(const ShardQuestion& question, const EngineMemory& memory, double more_bits, ShardUse& use) const {
    use.port_cycles = memory.port_cycles;
    use.streamed_bytes = memory.streamed_bytes;
    use.streams = memory.streams;
    const BlockInventory board{board_.bram36, board_.urams};
    const BlocksAfterSum* after = built_->after_sum(*use.built);
    if (!waits_outside(question)) {
      const MemoryBlocks act_ram = act_ram_blocks(memory, use.built->held, act_ram_bits(use, memory) + more_bits);
      use.blocks = built_blocks(memory, after, question.owner, act_ram, board);
      return;
    }
    use.act_ram_outside = act_ram_outside(memory, use.built->held, use.built->cycles_given, outside_count(question));
    use.streams += use.act_ram_outside->fabric;
    EngineMemory with_port = memory;
    with_port.bram18 += use.act_ram_outside->bram18;
    use.blocks = built_blocks(with_port, after, question.owner, std::nullopt, board);
  }

  static OutsideCount outside_count(const ShardQuestion& question) {
    if (counts_least(question)) return OutsideCount::kLeast;
    return question.streamed_words == StreamedWords::kFull ? OutsideCount::kFewestBytes : OutsideCount::kMost;
  }

  // Nothing that a part of the shard, or another engine, may take less of.
  static bool counts_least(StreamedWords words) { return words == StreamedWords::kLeast || words == StreamedWords::kLeastBuilt; }
  static bool counts_least(const ShardQuestion& question) { return counts_least(question.streamed_words); }

  // Of a larger part no bit more than it has, though those of the shard are whole ones.
  static double act_ram_bits(const ShardUse& use, const EngineMemory& memory) {
    const double bits = use.buffers.act_ram.bits;
    return std::max(bits, (bits - 1) * memory.act_ram_times) + use.buffers.state.bits;
  }

  ShardDemand demand_of(const ShardQuestion& question, const ShardUse& use) const {
    ShardDemand demand;
    demand.amounts[0] = use.dsps;
    demand.amounts[1] = use.fabric.luts;
    demand.amounts[2] = use.fabric.flip_flops;
    demand.amounts[kOnChipMemory] = use.blocks ? use.blocks->fixed_bits + use.blocks->parameter_bits : use.on_chip.block_bits;
    demand.amounts[4] = use.buffers.off_chip_bytes;
    if (use.blocks)
      std::ranges::copy_n(use.blocks->exchanged.begin(), rates_counted(question), demand.amounts.begin() + kExchanged);
    else if (capacities_.size() > kExchanged)  // as if every block were full
      for (size_t rate = 0; rate < kExchangeRates.size(); ++rate)
        demand.amounts[kExchanged + rate] = use.on_chip.block_bits * kExchangeRates[rate] / static_cast<double>(kUramBits);
    demand.parameters = use.blocks ? 0 : use.buffers.parameter_bits;
    const OffChipWords words = words_searched(question, use);
    const double bytes = words.bytes + (use.act_ram_outside ? use.act_ram_outside->bytes_per_sample : 0);
    if (bytes > 0 && board_.off_chip_bytes_per_second > 0) {
      // Whole steps, of which sums are exact in any order.
      constexpr double kSteps = static_cast<double>(int64_t{1} << 50);
      demand.seconds = std::ceil(bytes / board_.off_chip_bytes_per_second * kSteps) / kSteps;
      const bool act_ram_waits = use.act_ram_outside && !use.act_ram_outside->keeps_up;
      if (words.port_seconds > question.period_seconds || act_ram_waits) demand.amounts[0] = kNoSuchEngine;
    }
    return demand;
  }

  // What a search reserves is of each kind of block the most that any part of a shard takes, so at rates between the kinds it rules out
  // much that fits: there all is counted that is of block RAM alone. Of what is built, and of the least that may be, all rates say which
  // memories find their blocks.
  static ptrdiff_t rates_counted(const ShardQuestion& question) {
    return question.streamed_words == StreamedWords::kBuilt || counts_least(question) ? std::ssize(kExchangeRates) : 1;
  }

  // Of memory that is built, what it takes, or what a search reserves.
  ShardUse use_of(const ShardQuestion& question, bool exact) const { return searched_use(question, exact).use; }

  Searched searched_use(const ShardQuestion& question, bool exact) const {
    MILLRACE_CHECK(question.node != nullptr, "a cost is asked for without a layer");
    if (!(question.period_seconds > 0))
      fail(ErrorCode::kUsage, "layer \"{}\" on {}: engines are sized to a period, and {} seconds is none; it must be above 0",
           question.node->layer.name, board_.name, question.period_seconds);
    if (!(question.lifetime >= 0 && question.lifetime <= kLongestLifetime))
      fail(ErrorCode::kUsage, "layer \"{}\" on {}: activations that live for {} samples; it must be from 0 to {}",
           question.node->layer.name, board_.name, question.lifetime, kLongestLifetime);
    const Node& node = *question.node;
    ShardUse use;
    use.shard = geometry_of(node, question.blocks, question.owner);
    if (question.off_chip && use.shard.place == WeightPlace::kOnChip) use.shard.place = WeightPlace::kOffChip;
    if (question.on_chip && use.shard.place == WeightPlace::kOffChip && use.shard.has_engine()) use.shard.place = WeightPlace::kOnChip;
    use.engines = engines_of(use.shard, question.period_seconds * static_cast<double>(board_.clock_hz));
    EngineMemory memory;  // of what is built
    if (built_) build_engines(question, exact, use, memory);
    const int copies = 2 + question.optimizer_slots;
    use.settings = {.lifetime = question.lifetime,
                    .element_bits = element_bits_,
                    .copies = node.trained ? copies : 1,
                    .owner = question.owner,
                    .gradient_samples = held_samples(question, use.shard),
                    .forward_tiles = use.engines.forward.tiles,
                    .error_back_tiles = use.engines.error_back.tiles};
    const double lifetime = lifetime_after_sum(use.shard, question.lifetime);
    SpecialFunctionUse after;
    // A head without weights runs in the special-function unit, too.
    if (!node.computes) after += special_function_use({&question.node, 1}, lifetime, element_bits_, copies);
    if (question.owner) after += special_function_use(question.after, lifetime, element_bits_, copies);
    use.buffers = shard_buffers(use.shard, use.settings, after);
    if (infers_ && question.gradient_samples > 0) {
      use.steps_of_pass = steps_of_dense_pass(use.shard, steps_per_pass_, element_bits_, board_.on_chip_bits());
      const double waiting = bits_of_dense_pass(use.shard, use.steps_of_pass, element_bits_);
      use.buffers.weight_stream += Buffer{waiting, waiting, 0};
    }
    use.on_chip = use.buffers.fixed();
    if (use.built && use.built->keeps_up) {
      add_memory(question, memory, 0, use);
    }
    add_logic(question, after.lane_logic, use);
    return {std::move(use), after.lane_logic};
  }

  // What is generated, of as many engines as are, and the memory that it takes or, for a search, that is reserved for it.
  void build_engines(const ShardQuestion& question, bool exact, ShardUse& use, EngineMemory& memory) const {
    if (!use.shard.has_engine() || !use.shard.trained) return;
    use.built = built_->without_engine(*question.node, question.blocks, question.period_seconds, static_cast<double>(board_.clock_hz));
    if (!use.built) return;
    if (use.built->passes) {
      const WeightsAt weights = weights_at(question, use);
      const auto sized = [&] { return sized_engine(question, *use.built, weights, exact); };
      const SizedEngine found = exact ? sized()
                                      : memo_.at(use.built->cycles_given,
                                                 {.layer = use.built->layer,
                                                  .width = use.built->width,
                                                  .held = use.built->held,
                                                  .weights = weights,
                                                  .words = question.streamed_words},
                                                 sized);
      use.built = found.engine;
      memory = found.memory;
    }
    const EngineSize size{use.built->keeps_up ? use.built->engine.tiles() : 1, use.built->keeps_up};
    use.engines = {.forward = size, .error_back = {}, .parameter_gradient = size, .count = 2};
    if (!use.built->error_back) return;
    use.engines.error_back = size;
    ++use.engines.count;
  }

  SizedEngine sized_engine(const ShardQuestion& question, const GeneratedEngine& without, const WeightsAt& weights, bool exact) const {
    SizedEngine sized{without, {}};
    built_->add_engine(sized.engine);
    if (!sized.engine.keeps_up) return sized;
    if (exact && question.most_tiles > 0) sized.engine = built_->of_size(sized.engine, question.most_tiles);
    if (!exact && question.streamed_words == StreamedWords::kLeastBuilt) {
      if (const std::optional<std::vector<EngineMemory>> least = built_->least_built(sized.engine, weights, board_.urams > 0)) {
        sized.engine.keeps_up = !least->empty();
        if (least->empty()) return sized;
        sized.memory = least->front();
        sized.engine.reserved_tiles = least->front().tiles;
        return sized;
      }
    }
    sized.memory = exact ? built_->memory_of(sized.engine, weights) : reserved_memory(question, sized.engine, weights);
    return sized;
  }

  EngineMemory reserved_memory(const ShardQuestion& question, const GeneratedEngine& built, const WeightsAt& weights) const {
    const bool least = counts_least(question);
    EngineMemory memory = !least              ? built_->reserved_for_period(built, weights, /*least=*/false)
                          : board_.urams <= 0 ? built_->least_for_period(built, weights)
                                              : built_->least_of_any(built, weights);
    const bool exact = question.streamed_words == StreamedWords::kOfEngine, most = question.streamed_words == StreamedWords::kReserved;
    memory.streamed_bytes = 0;
    if (least) memory.streams = {};
    if (weights.off_chip)
      memory.streamed_bytes = exact ? built_->fewest_bytes(built, weights) : built_->reserved_bytes(built, weights, most);
    return memory;
  }

  // Of an engine that is built.
  WeightsAt weights_at(const ShardQuestion& question, const ShardUse& use) const {
    WeightsAt at{.act_ram_outside = waits_outside(question)};
    if (use.shard.place != WeightPlace::kOffChip || use.built->held.groups > 1) return at;
    at.off_chip = true;
    at.gradient_samples = std::max<int64_t>(gradient_samples(question, use.shard), 1);
    at.held_samples = std::max<int64_t>(held_samples(question, use.shard), 1);
    return at;
  }

  bool waits_outside(const ShardQuestion& question) const { return question.act_ram_outside && may_wait_outside(); }

  // Side by side, of a dense layer that looks at every sample once.
  static int64_t gradient_samples(const ShardQuestion& question, const ShardGeometry& shard) {
    const bool streams = shard.place == WeightPlace::kOffChip && shard.has_engine() && shard.trained;
    return streams && shard.unit == StreamingUnit::kSample ? question.gradient_samples : std::min<int64_t>(question.gradient_samples, 1);
  }

  // Of them those that take memory.
  static int64_t held_samples(const ShardQuestion& question, const ShardGeometry& shard) {
    const int64_t samples = gradient_samples(question, shard);
    return question.gradient_samples_held > 0 ? std::min(samples, question.gradient_samples_held) : samples;
  }

  static bool moves_words(const ShardQuestion& question, const ShardUse& use) {
    return question.gradient_samples > 0 && use.shard.place == WeightPlace::kOffChip && use.shard.has_engine();
  }

  // Of all channels held, without what an engine's words leave empty: a part never moves more than the whole.
  OffChipWords words_asked(const ShardQuestion& question, const ShardUse& use) const {
    if (!moves_words(question, use)) return {};
    const bool built = use.built && use.built->keeps_up && use.built->held.groups == 1;
    const ConvolutionShape& held = use.built ? use.built->held : ConvolutionShape{};
    const auto elements = static_cast<double>(built ? held.inputs * held.outputs * held.kernel_h * held.kernel_w : use.shard.weights);
    const double kernels = elements * static_cast<double>(element_bits_) / 8, gradients = elements * kGradientBytes;
    // What is built reads kernels once a step, of which strides leave fewer than there are rows.
    const auto forward = static_cast<double>(built ? forward_passes(held) : use.shard.forward.units / use.steps_of_pass);
    const auto back = static_cast<double>(built ? error_back_passes(held) : use.shard.error_back.units);
    const bool error_back = built ? use.built->error_back : use.shard.error_comes;
    const double gradient = use.shard.trained ? gradients * forward / static_cast<double>(gradient_samples(question, use.shard)) : 0;
    OffChipWords words{.bytes = kernels * (forward + (error_back ? back : 0)) + 2 * gradient};
    if (!built && !infers_) return words;
    if (use.port_cycles > 0) {  // with the rests of a writer and what words leave empty: no plan may take longer than it was found for
      words.port_seconds = static_cast<double>(use.port_cycles) / static_cast<double>(board_.clock_hz);
      return words;
    }
    const double port = static_cast<double>(kMostBeatBits) / 8 * static_cast<double>(board_.clock_hz);
    words.port_seconds = std::max({kernels * forward, error_back ? kernels * back : 0, gradient}) / port;
    return words;
  }

  OffChipWords words_searched(const ShardQuestion& question, const ShardUse& use) const {
    OffChipWords words = words_asked(question, use);
    words.bytes = std::max(words.bytes, use.streamed_bytes);
    return words;
  }

  // Of the engine as it is built.
  OffChipWords words_built(const ShardQuestion& question, const ShardUse& use) const {
    OffChipWords words = words_asked(question, use);
    if (words.port_seconds <= 0 || !use.built) return words;
    const GeneratedEngine& built = *use.built;
    const WeightStreams streams{.samples = 1, .gradient_samples = gradient_samples(question, use.shard), .beat_bits = kMostBeatBits};
    words.bytes = bytes_per_sample(streams, built.engine, built.held, built.error_back);
    return words;
  }

  void add_logic(const ShardQuestion& question, double lane_logic, ShardUse& use) const {
    const int64_t multipliers = (use.built ? use.engines.count * use.built->reserved_tiles : use.engines.tiles()) * tile_of(use);
    const int64_t in_dsps = whole_part_of(use.built ? 1 : board_.dsp_multiplier_share, multipliers);
    use.dsps = use.engines.keep_up() ? static_cast<double>(in_dsps) * board_.dsps_per_mac : kNoSuchEngine;
    use.fabric = engine_fabric({.multipliers = multipliers, .fabric_multipliers = multipliers - in_dsps, .phases = use.engines.count},
                               element_bits_);
    if (use.built && use.built->keeps_up && question.owner) {
      use.dsps += static_cast<double>(slices_after_sum(use.built->lanes, question.after));
      use.fabric.luts += luts_after_sum(use.built->lanes, question.after);
    }
    if (infers_) use.dsps /= board_.dsp_engine_share;  // fpga_resources.h says why
    if (question.owner) use.fabric += special_function_fabric(lane_logic, element_bits_);
    use.fabric.luts += use.on_chip.luts;
    use.fabric += use.streams;
  }

  void add_phases(const ShardUse& use, const OffChipWords& words, ShardCost& cost) const {
    if (!use.shard.has_engine()) return;
    const char* engine = use.shard.place == WeightPlace::kStationary ? "pe_chain" : "conv_ce";
    if (use.built) {
      add_built_phases(*use.built, use.shard, words.port_seconds, cost);
      return;
    }
    const auto add = [&](Phase phase, const EngineSize& size, const PhaseWork& walk) {
      int64_t picoseconds = picoseconds_of(cycles_per_unit(walk, size), board_.clock_hz);
      picoseconds = std::max(picoseconds, static_cast<int64_t>(std::ceil(1e12 * words.port_seconds / static_cast<double>(walk.units))));
      cost.phases.push_back({phase, engine, size.tiles * use.shard.tile, picoseconds});
      cost.seconds_per_sample =
          std::max(cost.seconds_per_sample, 1e-12 * static_cast<double>(picoseconds) * static_cast<double>(walk.units));
    };
    add(Phase::kForward, use.engines.forward, use.shard.forward);
    if (use.shard.error_comes) add(Phase::kErrorBack, use.engines.error_back, use.shard.error_back);
    if (use.shard.trained) add(Phase::kParameterGradient, use.engines.parameter_gradient, use.shard.forward);
  }

  // As device_cycles.h has them; the ring's streams pass with FP, and all wait for the ports to the memory outside.
  void add_built_phases(const GeneratedEngine& built, const ShardGeometry& shard, double port_seconds, ShardCost& cost) const {
    const int64_t multipliers = built.engine.tiles() * built.engine.taps();
    const auto add = [&](Phase phase, int64_t cycles, int64_t units, double at_least) {
      int64_t picoseconds = picoseconds_of(cycles, board_.clock_hz * units);
      picoseconds = std::max(picoseconds, static_cast<int64_t>(std::ceil(1e12 * at_least / static_cast<double>(units))));
      cost.phases.push_back({phase, "conv_ce", multipliers, picoseconds});
      cost.seconds_per_sample = std::max(cost.seconds_per_sample, 1e-12 * static_cast<double>(picoseconds * units));
    };
    add(Phase::kForward, built.cycles.forward, shard.output.height, std::max(built.stream_seconds, port_seconds));
    if (built.error_back) add(Phase::kErrorBack, built.cycles.error_back, shard.input.height, port_seconds);
    add(Phase::kParameterGradient, built.cycles.gradient, shard.output.height, port_seconds);
  }

  void add_resources(const ShardUse& use, const OffChipWords& words, const ShardQuestion& question, ShardCost& cost) const {
    cost.resources = {{"dsp", use.dsps},
                      {"lut", use.fabric.luts},
                      {"ff", use.fabric.flip_flops},
                      {"bram_bits", use.blocks ? use.blocks->fixed_bits : use.on_chip.block_bits},
                      {"dram_bytes", use.buffers.off_chip_bytes},
                      {"parameter_bram_bits", use.blocks ? use.blocks->parameter_bits : use.buffers.parameter_bits}};
    const auto add = [&](const char* name, double amount) {
      if (amount > 0) cost.resources.push_back({name, amount});
    };
    PackedShard packed;
    if (use.blocks)
      packed = {.fixed = use.blocks->fixed, .parameters = use.blocks->parameters};
    else
      packed = packed_shard(use.shard, use.buffers, use.settings, {board_.bram36, board_.urams});
    add("bram36", packed.fixed.bram36);
    add("parameter_bram36", packed.parameters.bram36);
    add("uram", packed.fixed.urams);
    add("parameter_uram", packed.parameters.urams);
    add("lutram_lut", use.on_chip.luts);
    const double moved = words.bytes > 0 ? words.bytes : off_chip_traffic(use.shard, question.micro_batch);
    add("dram_bytes_per_second", moved / question.period_seconds);
    add(kOffChipBytesPerSample.data(), words.bytes);
    if (use.act_ram_outside) add(kActRamBytesPerSample.data(), use.act_ram_outside->bytes_per_sample);
    if (use.steps_of_pass > 1) add(kStepsOfPass.data(), static_cast<double>(use.steps_of_pass));
  }

  // Bytes per sample: FP and EB read every weight once per micro-batch; PG reads and writes its gradient. An embedding
  // touches one row of its table per step.
  double off_chip_traffic(const ShardGeometry& shard, int64_t micro_batch) const {
    if (shard.place != WeightPlace::kOffChip) return 0;
    const double passes = 1.0 + (shard.error_comes && shard.has_engine() ? 1 : 0) + (shard.trained ? 2 : 0);
    const double bytes = passes * static_cast<double>(element_bits_) / 8;
    if (!shard.has_engine()) return bytes * static_cast<double>(shard.outputs * shard.output.height);
    return bytes * static_cast<double>(shard.weights) / static_cast<double>(std::max<int64_t>(micro_batch, 1));
  }

  FpgaResources board_;
  int64_t element_bits_;
  InferenceBatch inference_;
  bool infers_;  // for plans for inference
  RecurrentCosts recurrent_;
  std::shared_ptr<const GeneratedEngines> built_;  // nothing: the paper's free counts
  mutable EngineMemo memo_;                        // of searches
  int64_t steps_per_pass_;                         // of plans for inference that say so
  std::vector<NamedAmount> capacities_;
  mutable std::mutex others_mutex_;
  mutable std::map<double, std::unique_ptr<const FpgaCostModel>> at_other_clocks_;
};

}  // namespace

std::unique_ptr<CostModel> make_fpga_cost_model(const CatalogueDevice& device, const Arithmetic& arithmetic,
                                                const InferenceBatch& inference, std::shared_ptr<const GeneratedEngines> built,
                                                const std::optional<ChainDimensions>& chains) {
  const int64_t bits = bits_of(arithmetic.wire);
  if (bits != 16 && bits != 32)
    fail(ErrorCode::kUsage, "FPGA engines work on 16 or 32 bits, not on the {} of {}; choose another width for {}", bits,
         name_of(arithmetic.wire), device.short_names.empty() ? device.name : device.short_names.front());
  if (bits != 16) built = nullptr;  // hardware is generated for 16 bits
  FpgaResources board = fpga_resources_of(device, bits);
  board.chains = chains;
  return std::make_unique<FpgaCostModel>(std::move(board), bits, inference, std::move(built));
}

}  // namespace millrace
