// Strategy `kind`: the best of all cuts, by trying all of them on small chains; what it refuses, and why.
#include "partitioner/baseline/kind_parallel.h"

#include <gmock/gmock.h>

#include <random>

#include "core/base/error.h"
#include "core/device/roofline.h"
#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/validate.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "fpga/cost/fpga_cost_model.h"

namespace millrace {
namespace {

using testing::HasSubstr;

const Catalogue& boards() {
  static const Catalogue all = parse_catalogue(fpga_catalogue_text(), "fpga/catalogue");
  return all;
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t from_to(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  Model model() {
    ModelBuilder net("drawn", {from_to(1, 20), from_to(2, 30), 1});
    const int64_t layers = from_to(1, 3);
    for (int64_t i = 0; i < layers; ++i) {
      if (from_to(0, 2) == 0) net.dense("dense" + std::to_string(i), from_to(1, 40));
      net.layer("rnn" + std::to_string(i),
                Recurrent{.cell = static_cast<CellKind>(from_to(0, 3)), .hidden = from_to(2, 30), .bidirectional = from_to(0, 2) == 0});
    }
    net.dense("fc", 5);
    Model model = net.finish();
    model.input_kind = InputKind::kFeatures;
    return model;
  }
  std::unique_ptr<CostModel> device() {
    return make_roofline_cost_model({.device = "drawn",
                                     .macs_per_second = 1e9 * static_cast<double>(from_to(1, 50)),
                                     .bytes_per_second = 1e9 * static_cast<double>(from_to(1, 20)),
                                     .memory_bytes = 1e4 * static_cast<double>(from_to(2, 400)),
                                     .convolution = {},
                                     .dense = {},
                                     .launch_seconds = 1e-6 * static_cast<double>(from_to(0, 5)),
                                     .step_seconds = 1e-7 * static_cast<double>(from_to(0, 20)),
                                     .on_chip_bytes = 0,
                                     .refusal = {},
                                     .constants = {}});
  }

 private:
  std::mt19937 random_;
};

// Every way to give each device a run of layers, products and steps; the least period, 0 where none fits.
class BruteForce {
 public:
  explicit BruteForce(const PlanTask& task) : task_(task) {
    for (const LayerGroup& group : task.graph->groups()) {
      heads_.push_back(group.head);
      parts_of_.push_back(role_of(task.graph->node(group.head).layer.operation) == Role::kRecurrence ? 2 : 1);
    }
  }

  double least() {
    place(0, 0, 0);
    return best_;
  }
  int64_t rings() const { return rings_; }

 private:
  // `device` takes part `part` of group `group`, or the next device does.
  void place(size_t group, int64_t part, int64_t device) {
    if (group == heads_.size()) {
      if (device == static_cast<int64_t>(task_.models.size()) - 1) weigh();
      return;
    }
    const bool last = part + 1 == parts_of_[group];
    devices_of_.push_back(device);
    for (const int64_t next : {device, device + 1})
      if (next < static_cast<int64_t>(task_.models.size())) {
        if (last && group + 1 == heads_.size() && next != device) continue;
        place(last ? group + 1 : group, last ? 0 : part + 1, next);
      }
    devices_of_.pop_back();
  }

  void weigh() {
    const Graph& graph = *task_.graph;
    std::vector<Shard> shards;
    size_t unit = 0;
    for (size_t g = 0; g < heads_.size(); ++g) {
      const Node& head = graph.node(heads_[g]);
      const std::vector<Block> all = {{{0, head.input_shapes[0].channels}, {0, sum_shape(head).channels}}};
      const int64_t first = devices_of_[unit], second = devices_of_[unit + static_cast<size_t>(parts_of_[g]) - 1];
      unit += static_cast<size_t>(parts_of_[g]);
      Shard& here = shards.emplace_back();
      here.device = first;
      here.layer = head.layer.name;
      here.blocks = all;
      if (second == first) continue;
      Shard& steps = shards.emplace_back();
      steps.device = second;
      steps.layer = head.layer.name;
    }
    PlanRequest request{.cluster = task_.cluster,
                        .alignment = task_.options.alignment,
                        .mini_batch = task_.options.mini_batch,
                        .micro_batch = task_.options.micro_batch,
                        .optimizer = task_.options.optimizer,
                        .arithmetic = task_.options.arithmetic};
    const auto board = [&](int64_t device) { return task_.models[static_cast<size_t>(device)]->dedicated_engines(); };
    for (const Shard& shard : shards) {
      if (!board(shard.device)) continue;
      const auto others = std::ranges::count(shards, shard.device, &Shard::device);
      if (others > 1 || !shard.blocks.empty() || board(shard.device - 1)) return;  // steps alone, behind what multiplies
      for (ParameterHome& home : homes_before_steps(graph.node(graph.index_of(shard.layer)), shard.device))
        request.remote_homes.push_back(std::move(home));
    }
    Plan plan = assemble_plan(graph, request, shards);
    std::vector<double> memory(task_.models.size(), 0), more(task_.models.size(), 0);
    for (Shard& shard : plan.shards) {
      const LayerGroup& layers = graph.groups()[static_cast<size_t>(graph.node(graph.index_of(shard.layer)).group)];
      const Node& head = graph.node(layers.head);
      const std::vector<Block> blocks = shard.blocks.empty() ? std::vector<Block>{{{0, 0}, {0, sum_shape(head).channels}}} : shard.blocks;
      const Group& group = plan.groups[static_cast<size_t>(head.group)];
      const bool owner = &plan.shards[static_cast<size_t>(group.shards.back())] == &shard;
      std::vector<const Node*> after;
      for (const int64_t node : layers.after)
        if (owner) after.push_back(&graph.node(node));
      const auto device = static_cast<size_t>(shard.device);
      const ShardQuestion question{.node = &head,
                                   .blocks = blocks,
                                   .after = after,
                                   .owner = owner,
                                   .micro_batch = plan.micro_batch,
                                   .window = plan.windows[device],
                                   .optimizer_slots = task_.options.optimizer.slots(),
                                   .arithmetic = task_.options.arithmetic};
      if (board(shard.device)) {
        if (!task_.models[device]->steps_refusal(question).empty()) return;
        // Its x W keeps the weights and makes the gradients, as it would at home.
        Node copy = head;
        copy.input_error_needed = true;
        ShardQuestion at_home = question;
        at_home.node = &copy;
        at_home.after = {};
        at_home.window = plan.windows[device - 1];
        memory[device - 1] += task_.models[device - 1]->demand_of(at_home).parameters;
        for (const PhaseEngine& engine : task_.models[device - 1]->cost_of(at_home).phases)
          if (engine.phase == Phase::kParameterGradient) more[device - 1] += 1e-12 * static_cast<double>(engine.picoseconds_per_unit);
      }
      const ShardDemand demand = task_.models[device]->demand_of(question);
      if (board(shard.device)) {
        for (size_t i = 0; i < task_.models[device]->capacities().size(); ++i)
          if (demand.amounts[i] > task_.models[device]->capacities()[i].amount) return;
      } else {
        memory[device] += demand.amounts[0] + demand.parameters;
      }
      const ShardCost cost = task_.models[device]->cost_of(question);
      shard.unit = cost.unit;
      shard.phases = cost.phases;
    }
    ++rings_;
    for (size_t d = 0; d < memory.size(); ++d)
      if (!board(static_cast<int64_t>(d)) && memory[d] > task_.models[d]->capacities()[0].amount) return;
    const PlanSummary summary = summarize(plan, graph);
    double period = summary.seconds_per_image;
    for (size_t d = 0; d < more.size(); ++d) period = std::max(period, summary.devices[d].seconds_per_image + more[d]);
    if (best_ == 0 || period < best_) best_ = period;
  }

  const PlanTask& task_;
  std::vector<int64_t> heads_, parts_of_, devices_of_;
  int64_t rings_ = 0;
  double best_ = 0;
};

TEST(KindParallel, IsTheBestOfAllCuts) {
  int64_t rings = 0, infeasible = 0, divided = 0, drawn_boards = 0, lent = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Draw draw(seed);
    const Graph graph(draw.model());
    std::vector<std::unique_ptr<CostModel>> devices;
    PlanTask task;
    task.graph = &graph;
    const int64_t count = draw.from_to(1, 4);
    for (int64_t d = 0; d < count; ++d) {
      const bool takes_steps = d > 0 && draw.from_to(0, 4) == 0;
      devices.push_back(takes_steps ? make_fpga_cost_model(boards().find("vc709"), {.wire = ElementType::kFixed16}) : draw.device());
      drawn_boards += takes_steps ? 1 : 0;
    }
    for (const auto& device : devices) task.models.push_back(device.get());
    task.cluster = uniform_cluster("cpu", count);
    for (LinkEntry& link : task.cluster.links)
      link = {0.01 * static_cast<double>(draw.from_to(1, 100)), 0.01 * static_cast<double>(draw.from_to(1, 100)),
              draw.from_to(0, 1) == 0 ? 0 : 0.5, 0};
    task.options.strategy = Strategy::kKind;
    task.options.alignment = Alignment::kFlush;
    task.options.mini_batch = 4;
    task.options.micro_batch = draw.from_to(1, 2);
    BruteForce all(task);
    const double least = all.least();
    rings += all.rings();
    const Outcome outcome = plan_by_kind(task);
    ASSERT_EQ(outcome.feasible, least > 0) << "seed " << seed << ": " << outcome.reason.text;
    if (!outcome.feasible) {
      ++infeasible;
      EXPECT_FALSE(outcome.reason.text.empty());
      EXPECT_GT(outcome.reason.missing, 0);
      continue;
    }
    ASSERT_NEAR(outcome.summary.seconds_per_image, least, 1e-12 + 1e-9 * least) << "seed " << seed;
    EXPECT_NEAR(outcome.plan->lower_bound_seconds_per_image, least, 1e-12 + 1e-6 * least);
    ASSERT_NO_THROW(validate(*outcome.plan, graph, "plan")) << "seed " << seed;
    for (const Group& group : outcome.plan->groups) divided += group.shards.size() > 1 ? 1 : 0;
    for (const Group& group : outcome.plan->groups) lent += gradients_of_steps_at(*outcome.plan, graph, group) >= 0 ? 1 : 0;
  }
  EXPECT_GT(rings, 8000);
  EXPECT_GT(infeasible, 100);
  EXPECT_GT(divided, 500);
  EXPECT_GT(drawn_boards, 300);
  EXPECT_GT(lent, 100);
}

std::unique_ptr<CostModel> large_device() {
  return make_roofline_cost_model({.device = "large",
                                   .macs_per_second = 1e13,
                                   .bytes_per_second = 1e12,
                                   .memory_bytes = 1e12,
                                   .convolution = {},
                                   .dense = {},
                                   .launch_seconds = 0,
                                   .step_seconds = 0,
                                   .on_chip_bytes = 0,
                                   .refusal = {},
                                   .constants = {}});
}

// The steps of every layer on a board, and what that takes: the elements of LSTM-128, loads, gradients and records on the CPUs.
TEST(KindParallel, BoardsMakeSteps) {
  const Graph graph(zoo_model("char-rnn"));
  const auto cpu = large_device();
  const auto board = make_fpga_cost_model(boards().find("vc709"), {.wire = ElementType::kFixed16});
  PlanTask task;
  task.graph = &graph;
  task.cluster = parse_cluster_shorthand("cpu+vc709+cpu+vc709+cpu");
  task.models = {cpu.get(), board.get(), cpu.get(), board.get(), cpu.get()};
  task.options.strategy = Strategy::kKind;
  task.options.mini_batch = 8;
  task.options.micro_batch = 2;
  task.options.arithmetic = {ElementType::kFloat32, ElementType::kFixed16};
  const Outcome outcome = plan_by_kind(task);
  ASSERT_TRUE(outcome.feasible) << outcome.reason.text;
  validate(*outcome.plan, graph, "plan");
  EXPECT_TRUE(loads_every_pass(*outcome.plan, 1));
  EXPECT_TRUE(loads_every_pass(*outcome.plan, 3));
  for (const Shard& shard : outcome.plan->shards) {
    if (shard.device % 2 == 0) continue;
    EXPECT_TRUE(shard.blocks.empty());
    ASSERT_EQ(shard.phases.size(), 2u);
    EXPECT_EQ(shard.phases[0].engine, "pe_chain");
  }
  task.cluster = parse_cluster_shorthand("cpu+vc709");
  task.models.resize(2);
  const Outcome open = plan_by_kind(task);
  EXPECT_FALSE(open.feasible);
  EXPECT_THAT(open.reason.text, HasSubstr("one behind it for the layers that follow"));
  task.cluster = parse_cluster_shorthand("vc709+cpu");
  task.models = {board.get(), cpu.get()};
  EXPECT_THAT(plan_by_kind(task).reason.text, HasSubstr("takes a CPU or GPU before it"));
}

TEST(KindParallel, BoardsThatAreTooSmallSayWhat) {
  const Graph graph(zoo_model("deepspeech2-lstm"));
  const auto cpu = large_device();
  const auto board = make_fpga_cost_model(boards().find("vc709"), {.wire = ElementType::kFixed16});
  PlanTask task;
  task.graph = &graph;
  task.cluster = parse_cluster_shorthand("cpu+vc709+cpu");
  task.models = {cpu.get(), board.get(), cpu.get()};
  task.options.strategy = Strategy::kKind;
  task.options.mini_batch = 2;
  task.options.arithmetic = {ElementType::kFloat32, ElementType::kFixed16};
  const Outcome outcome = plan_by_kind(task);
  EXPECT_FALSE(outcome.feasible);
  EXPECT_THAT(outcome.reason.text, HasSubstr("device 1 (vc709): layer \"rnn"));
  EXPECT_THAT(outcome.reason.text, HasSubstr("weights an element"));
}

TEST(KindParallel, RefusesWhatItDoesNotDo) {
  const Graph cnn(zoo_model("lenet5")), rnn(zoo_model("char-rnn"));
  Draw draw(1);
  const auto device = draw.device();
  PlanTask task;
  task.graph = &cnn;
  task.cluster = uniform_cluster("cpu", 1);
  task.models = {device.get()};
  task.options.strategy = Strategy::kKind;
  task.options.mini_batch = 4;
  const auto message = [&] {
    try {
      plan_by_kind(task);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(), HasSubstr("lenet5 has none; plan with hybrid"));
  task.graph = &rnn;
  task.options.pins = {{"lstm1", 0}};
  EXPECT_THAT(message(), HasSubstr("leave --pin and --cut out"));
  task.options.pins.clear();
  task.cluster = uniform_cluster("cpu", 9);
  task.models.assign(9, device.get());
  const Outcome outcome = plan_by_kind(task);
  EXPECT_FALSE(outcome.feasible);
  EXPECT_THAT(outcome.reason.text, HasSubstr("char-rnn has 8 of them for 9 devices; use 8 devices at most"));
}

}  // namespace
}  // namespace millrace
