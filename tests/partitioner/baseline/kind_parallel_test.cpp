// Strategy `kind`: the best of all cuts, by trying all of them on small chains; what it refuses, and why.
#include "partitioner/baseline/kind_parallel.h"

#include <gmock/gmock.h>

#include <map>

#include "core/base/error.h"
#include "core/device/roofline.h"
#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/validate.h"
#include "fpga/cost/fpga_cost_model.h"
#include "partitioner/choice/choose.h"
#include "partitioner/choice/planner.h"
#include "tests/partitioner/baseline/kind_brute_force.h"

namespace millrace {
namespace {

using testing::HasSubstr;

using testing_support::boards;
using testing_support::BruteForce;
using Draw = testing_support::DrawnChain;

TEST(KindParallel, IsTheBestOfAllCuts) {
  int64_t rings = 0, infeasible = 0, divided = 0, drawn_boards = 0, remote = 0, apart = 0;
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
    task.options.divide_all = seed % 4 == 3;
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
    for (const Group& group : outcome.plan->groups) {
      const bool recurrent = role_of(graph.node(graph.index_of(group.layer)).layer.operation) == Role::kRecurrence;
      if (task.options.divide_all && recurrent) {
        ASSERT_TRUE(divided_by_kind(graph, group)) << "seed " << seed;
      }
    }
    ASSERT_NEAR(outcome.summary.seconds_per_image, least, 1e-12 + 1e-9 * least) << "seed " << seed;
    EXPECT_NEAR(outcome.plan->lower_bound_seconds_per_image, least, 1e-12 + 1e-6 * least);
    ASSERT_NO_THROW(validate(*outcome.plan, graph, "plan")) << "seed " << seed;
    for (const Group& group : outcome.plan->groups) divided += group.shards.size() > 1 ? 1 : 0;
    apart += std::ranges::count_if(outcome.plan->shards, &Shard::after);
    for (const Group& group : outcome.plan->groups) remote += gradients_of_steps_at(*outcome.plan, graph, group) >= 0 ? 1 : 0;
  }
  EXPECT_GT(rings, 7000);
  EXPECT_GT(infeasible, 100);
  EXPECT_GT(divided, 500);
  EXPECT_GT(drawn_boards, 300);
  EXPECT_GT(remote, 100);
  EXPECT_GT(apart, 50);
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

// Boards side by side share steps: as many of them, and whichever cells on each, as is best, on unlike boards and links.
TEST(KindParallel, SharesStepsAsTheBestOfAllDivisions) {
  int64_t rings = 0, infeasible = 0, shared = 0, projected = 0, uneven = 0, three = 0;
  constexpr const char* kBoards[] = {"vc709", "zc706", "u280"};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Draw draw(7000 + seed);
    ModelBuilder net("drawn", {draw.from_to(1, 9), draw.from_to(2, 12), 1});
    const bool two = draw.from_to(0, 3) == 0;
    for (int i = 0; i < (two ? 2 : 1); ++i) {
      Recurrent cell{.cell = static_cast<CellKind>(draw.from_to(0, 3)),
                     .hidden = draw.from_to(2, two ? 6 : 11),
                     .bidirectional = draw.from_to(0, 2) == 0};
      cell.reset_after = cell.cell == CellKind::kGru && draw.from_to(0, 3) != 0;
      if (cell.cell == CellKind::kLstm && draw.from_to(0, 1) == 0) cell.projection = draw.from_to(1, cell.hidden - 1);
      if (grain_of(cell) == cell.hidden && cell.hidden % 2 == 0) cell.projection = cell.hidden / 2;
      net.layer("rnn" + std::to_string(i), cell);
    }
    net.dense("fc", 5);
    Model model = net.finish();
    model.input_kind = InputKind::kFeatures;
    const Graph graph(model);
    std::vector<std::unique_ptr<CostModel>> devices;
    PlanTask task;
    task.graph = &graph;
    const auto add_boards = [&](int64_t count) {
      for (int64_t b = 0; b < count; ++b) {
        CatalogueDevice board = boards().find(kBoards[draw.from_to(0, 2)]);
        for (CatalogueValue& value : board.values)
          if (value.name == "dsp" && draw.from_to(0, 2) == 0) value.value = static_cast<double>(draw.from_to(1, 5)) * 100;
        devices.push_back(make_fpga_cost_model(board, {.wire = ElementType::kFixed16}));
      }
    };
    devices.push_back(draw.device());
    add_boards(draw.from_to(2, two ? 2 : 3));
    devices.push_back(draw.device());
    if (two && draw.from_to(0, 1) == 0) {
      add_boards(draw.from_to(1, 2));
      devices.push_back(draw.device());
    }
    for (const auto& device : devices) task.models.push_back(device.get());
    task.cluster = uniform_cluster("cpu", static_cast<int64_t>(devices.size()));
    for (LinkEntry& link : task.cluster.links)
      link = {0.05 * static_cast<double>(draw.from_to(1, 100)), 0.05 * static_cast<double>(draw.from_to(1, 100)),
              draw.from_to(0, 2) == 0 ? 2.0 : 0.0, 0.01 * static_cast<double>(draw.from_to(0, 30))};
    task.options.strategy = Strategy::kKind;
    task.options.alignment = draw.from_to(0, 1) == 0 ? Alignment::kFlush : Alignment::kFpdeep;
    task.options.mini_batch = 4;
    task.options.micro_batch = draw.from_to(1, 2);
    task.options.arithmetic = {ElementType::kFloat32, ElementType::kFixed16};
    BruteForce all(task);
    const double least = all.least();
    rings += all.rings();
    const Outcome outcome = plan_by_kind(task);
    ASSERT_EQ(outcome.feasible, least > 0) << "seed " << seed << ": " << outcome.reason.text;
    if (!outcome.feasible) {
      ++infeasible;
      EXPECT_FALSE(outcome.reason.text.empty());
      continue;
    }
    ASSERT_NEAR(outcome.summary.seconds_per_image, least, 1e-12 + 1e-9 * least) << "seed " << seed;
    ASSERT_NO_THROW(validate(*outcome.plan, graph, "plan")) << "seed " << seed;
    for (const Group& group : outcome.plan->groups) {
      if (!shares_steps(*outcome.plan, graph, group)) continue;
      ++shared;
      projected += std::get<Recurrent>(graph.node(graph.index_of(group.layer)).layer.operation).projection > 0 ? 1 : 0;
      three += group.shards.size() > 3 ? 1 : 0;
      const auto cells = [&](int64_t shard) { return outcome.plan->shards[static_cast<size_t>(shard)].units.size(); };
      uneven += std::abs(cells(group.shards[1]) - cells(group.shards.back())) > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(rings, 2000);
  EXPECT_GT(infeasible, 10);
  EXPECT_GT(shared, 150);
  EXPECT_GT(projected, 10);
  EXPECT_GT(uneven, 10);
  EXPECT_GT(three, 30);
}

// Two cards that the ring visits in turn: what the places of a card take adds up, its memory and its cable's too.
TEST(KindParallel, FoldedRingsAreTheBestOfAllCuts) {
  int64_t rings = 0, infeasible = 0, boards_used = 0, on_cables = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Draw draw(20000 + seed);
    const Graph graph(draw.model());
    const bool board = draw.from_to(0, 1) == 0;
    const auto first = draw.device();
    const auto second =
        board ? make_fpga_cost_model(boards().find("vc709"), {ElementType::kFloat32, ElementType::kFixed16}) : draw.device();
    Cluster pair = uniform_cluster("cpu", 2);
    const bool slow = draw.from_to(0, 2) == 0;
    const auto gbps = [&] { return (slow ? 0.001 : 0.02) * static_cast<double>(draw.from_to(1, 100)); };
    pair.links.front() = {gbps(), gbps(), draw.from_to(0, 2) == 0 ? (slow ? 0.02 : 0.5) : 0, 0};
    PlanTask task;
    task.graph = &graph;
    task.cluster = folded(pair, draw.from_to(1, 3));
    for (size_t d = 0; d < task.cluster.devices.size(); ++d) task.models.push_back(d % 2 == 0 ? first.get() : second.get());
    task.options.strategy = Strategy::kKind;
    task.options.alignment = draw.from_to(0, 1) == 0 ? Alignment::kFlush : Alignment::kFpdeep;
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
      continue;
    }
    ASSERT_NEAR(outcome.summary.seconds_per_image, least, 1e-12 + 1e-9 * least) << "seed " << seed;
    ASSERT_NO_THROW(validate(*outcome.plan, graph, "plan")) << "seed " << seed;
    boards_used += board ? 1 : 0;
    on_cables += outcome.summary.bottleneck.kind == "link" ? 1 : 0;
    ASSERT_EQ(outcome.summary.seats.size(), 2U);
    EXPECT_EQ(outcome.summary.seats[0].places.size(), outcome.summary.seats[1].places.size() + 1);
  }
  EXPECT_GT(rings, 1000);
  EXPECT_GT(infeasible, 20);
  EXPECT_GT(boards_used, 30);
  EXPECT_GT(on_cables, 10);
}

TEST(KindParallel, FoldedRingsAreForThisStrategyAlone) {
  const Graph graph(zoo_model("char-rnn"));
  const auto device = large_device();
  PlanTask task;
  task.graph = &graph;
  task.cluster = parse_cluster_shorthand("cpu+cpu~1");
  task.models = {device.get(), device.get(), device.get()};
  for (const Strategy strategy : {Strategy::kHybrid, Strategy::kLayer}) {
    task.options.strategy = strategy;
    try {
      make_plan(task);
      FAIL() << "planned with " << name_of(strategy);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("planned with --strategy kind alone"));
    }
  }
}

// One direction of LSTM-1024 in sixteen bits: one VC709 is too small, three gain next to nothing over two, four are fastest of one to six.
TEST(KindParallel, MoreBoardsAreNotAlwaysFaster) {
  ModelBuilder net("lstm", {64, 576, 1});
  net.layer("lstm", Recurrent{.hidden = 1024});
  net.layer("last", LastStep{});
  net.dense("fc", 5);
  Model model = net.finish();
  model.input_kind = InputKind::kFeatures;
  const Graph graph(model);
  const auto gpu = large_device();
  const auto board = make_fpga_cost_model(boards().find("vc709"), {ElementType::kFixed16, ElementType::kFixed16});
  std::map<int, double> seconds;
  for (int count = 1; count <= 6; ++count) {
    PlanTask task;
    task.graph = &graph;
    task.cluster = parse_cluster_shorthand("cpu+vc709x" + std::to_string(count) + "+cpu");
    task.models.push_back(gpu.get());
    for (int b = 0; b < count; ++b) task.models.push_back(board.get());
    task.models.push_back(gpu.get());
    task.options.strategy = Strategy::kKind;
    task.options.mini_batch = 1;
    task.options.micro_batch = 1;
    task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
    const Outcome outcome = plan_by_kind(task);
    ASSERT_EQ(outcome.feasible, count > 1) << outcome.reason.text;
    if (count == 1) {
      EXPECT_THAT(outcome.reason.text, HasSubstr("more of them in a row"));
    }
    if (!outcome.feasible) continue;
    seconds[count] = outcome.summary.seconds_per_image;
    // Divided evenly three are slower than two (BoardRow.MoreBoardsAreNotAlwaysFaster): whoever is in the middle waits less, and takes
    // more.
    const std::vector<Shard>& shards = outcome.plan->shards;
    if (count == 3) {
      EXPECT_EQ(shards[1].units.size(), shards[3].units.size());
      EXPECT_GT(shards[2].units.size(), shards[1].units.size());
    }
  }
  EXPECT_GT(seconds[3], 0.97 * seconds[2]);
  for (const int count : {2, 3, 5, 6}) EXPECT_LT(seconds[4], seconds[count]) << count;
}

// Of more boards those that only slow a layer down have no work, and no layer is cut where one without work lies between its parts.
TEST(KindParallel, ABoardMoreIsNeverSlower) {
  ModelBuilder net("lstm", {64, 32, 1});
  net.layer("lstm", Recurrent{.hidden = 128});
  net.layer("last", LastStep{});
  net.dense("fc", 5);
  Model model = net.finish();
  model.input_kind = InputKind::kFeatures;
  const Graph graph(model);
  const auto cpu = large_device();
  const auto board = make_fpga_cost_model(boards().find("vc709"), {.wire = ElementType::kFixed16});
  bool fell = false;
  for (const bool divide_all : {false, true}) {
    double before = 0, all_before = 0;
    for (int count = 1; count <= 5; ++count) {
      PlanTask task;
      task.graph = &graph;
      task.cluster = parse_cluster_shorthand("cpu+vc709x" + std::to_string(count) + "+cpu");
      for (LinkEntry& link : task.cluster.links) link.latency_us = 0;
      task.models.assign(static_cast<size_t>(count) + 2, board.get());
      task.models.front() = task.models.back() = cpu.get();
      task.options.strategy = Strategy::kKind;
      task.options.mini_batch = 8;
      task.options.micro_batch = 2;
      task.options.divide_all = divide_all;
      task.options.arithmetic = {ElementType::kFloat32, ElementType::kFixed16};
      const ChosenPlan chosen = choose_plan(task, {});
      const double all = plan_by_kind(task).summary.images_per_second;
      fell = fell || all < all_before;
      all_before = all;
      if (!chosen.outcome.feasible) continue;
      validate(*chosen.outcome.plan, graph, "plan");
      EXPECT_GE(chosen.outcome.summary.images_per_second, before * (1 - 1e-9)) << count << " boards";
      before = chosen.outcome.summary.images_per_second;
      const bool has_work = !chosen.outcome.summary.devices[1].shards.empty();
      EXPECT_TRUE(has_work || !divide_all) << count << " boards";
    }
    EXPECT_GT(before, 0) << divide_all;
  }
  EXPECT_TRUE(fell) << "every board had made the ring faster";
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

// Weights, gradients and momenta are read, and all but gradients written, each where it is at home: those of a board's steps on the device
// before it.
TEST(KindParallel, UpdatesTakeTheTimeOfTheirBytesWithFullAccounting) {
  const Graph graph(zoo_model("char-rnn"));
  const auto cpu = large_device();
  const auto board = make_fpga_cost_model(boards().find("vc709"), {.wire = ElementType::kFixed16});
  double parameters = 0;
  for (const Node& node : graph.nodes()) parameters += static_cast<double>(node.work.parameters);
  for (const char* ring : {"cpux3", "cpu+vc709+cpu"}) {
    PlanTask task;
    task.graph = &graph;
    task.cluster = parse_cluster_shorthand(ring);
    for (const DeviceEntry& device : task.cluster.devices) task.models.push_back(device.device == "cpu" ? cpu.get() : board.get());
    task.options.strategy = Strategy::kKind;
    task.options.mini_batch = 8;
    task.options.micro_batch = 2;
    task.options.arithmetic = {ElementType::kFloat32, ElementType::kFixed16};
    task.options.optimizer.kind = OptimizerKind::kMomentum;
    task.mini_batch_time = [](const Plan&, const Graph&) { return MiniBatchTime{.seconds = 1}; };
    for (const Accounting accounting : {Accounting::kFpdeep, Accounting::kFull}) {
      task.options.accounting = accounting;
      const Outcome outcome = plan_by_kind(task);
      ASSERT_TRUE(outcome.feasible) << outcome.reason.text;
      double picoseconds = 0;
      for (const Shard& shard : outcome.plan->shards) {
        picoseconds += static_cast<double>(shard.update_picoseconds);
        if (task.models[static_cast<size_t>(shard.device)] == board.get()) {
          EXPECT_EQ(shard.update_picoseconds, 0);
        }
      }
      EXPECT_NEAR(picoseconds, accounting == Accounting::kFull ? 4 * 5 * parameters : 0, 10) << ring;
    }
  }
}

// What would come to a standstill is not taken: another micro-batch is, or another number of chunks, or the ring is infeasible.
TEST(KindParallel, ARingThatStandsStillIsNotPlanned) {
  const Graph graph(zoo_model("char-rnn"));
  const auto cpu = large_device();
  const auto board = make_fpga_cost_model(boards().find("vc709"), {.wire = ElementType::kFixed16});
  PlanTask task;
  task.graph = &graph;
  task.cluster = parse_cluster_shorthand("cpu+vc709+cpu");
  task.models = {cpu.get(), board.get(), cpu.get()};
  task.options.strategy = Strategy::kKind;
  task.options.accounting = Accounting::kFull;
  task.options.mini_batch = 8;
  task.options.time_chunks = 0;  // chosen
  task.options.arithmetic = {ElementType::kFloat32, ElementType::kFixed16};
  const auto plan_without = [&](const auto& stands_still) {
    task.mini_batch_time = [&](const Plan& plan, const Graph&) {
      if (stands_still(plan)) fail(ErrorCode::kStandstill, "it stands still");
      return MiniBatchTime{.seconds = 1};
    };
    return plan_by_kind(task);
  };
  const Outcome one_size = plan_without([](const Plan& plan) { return plan.micro_batch != 2; });
  ASSERT_TRUE(one_size.feasible) << one_size.reason.text;
  EXPECT_EQ(one_size.plan->micro_batch, 2);
  const Outcome in_chunks = plan_without([](const Plan& plan) { return plan.time_chunks < 4; });
  ASSERT_TRUE(in_chunks.feasible) << in_chunks.reason.text;
  EXPECT_EQ(in_chunks.plan->time_chunks, 4);
  const Outcome whole = plan_without([](const Plan& plan) { return plan.time_chunks > 1; });
  ASSERT_TRUE(whole.feasible) << whole.reason.text;
  EXPECT_EQ(whole.plan->time_chunks, 1);
  const Outcome none = plan_without([](const Plan&) { return true; });
  EXPECT_FALSE(none.feasible);
  EXPECT_EQ(none.reason.text, "it stands still");
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
