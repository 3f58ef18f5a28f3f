// Boards in a row: the worked example of LSTM-1024 on VC709s, and why one is too few.
#include "fpga/pe_chain/board_row.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace millrace {

namespace {

const ChainBoard kVc709{
    .name = "vc709", .dsp = 3600, .bram36 = 1470, .clock_hz = 200e6, .cable_bits_per_second = 75e9, .cable_seconds = 0.5e-6};
constexpr RecurrentSize kLstm{.cells = 1024, .fed_back = 1024};

}  // namespace

// By hand: elements of a unit; half blocks, 158 of them behind the chains; slices, 640 of them there; cycles, the last feed, 19 of the
// loop and the way back of the deepest; microseconds, with the cables.
TEST(BoardRow, LstmOf1024OnTwoToSixBoards) {
  const struct {
    int64_t boards, elements;
    double blocks, dsp;
    int64_t cycles;
    double forward, back;
  } known[] = {{2, 512, 2206, 2688, 1072, 5.97, 6.29},
               {3, 352, 1566, 2048, 1062, 6.46, 6.89},
               {4, 512, 2206, 2688, 560, 4.46, 4.95},
               {5, 448, 1950, 2432, 556, 4.95, 5.47},
               {6, 384, 1694, 2176, 552, 5.44, 5.98}};
  for (const auto& one : known) {
    const auto row = best_row(kLstm, kVc709, one.boards, 16);
    ASSERT_TRUE(row) << one.boards;
    EXPECT_EQ(row->elements, one.elements) << one.boards;
    EXPECT_EQ(row->half_blocks, one.blocks) << one.boards;
    EXPECT_EQ(row->dsp, one.dsp) << one.boards;
    EXPECT_EQ(row->forward_cycles, one.cycles) << one.boards;
    EXPECT_NEAR(1e6 * row->forward_seconds, one.forward, 0.006) << one.boards;
    EXPECT_NEAR(1e6 * row->back_seconds, one.back, 0.006) << one.boards;
  }
}

// Three are slower than two, and four fastest of one to six.
TEST(BoardRow, MoreBoardsAreNotAlwaysFaster) {
  std::string why;
  EXPECT_FALSE(best_row(kLstm, kVc709, 1, 16, &why));
  EXPECT_NE(why.find("half blocks"), std::string::npos) << why;
  const auto seconds = [](int64_t boards) {
    const auto row = best_row(kLstm, kVc709, boards, 16);
    return row->forward_seconds + row->back_seconds;
  };
  EXPECT_GT(seconds(3), seconds(2));
  for (const int64_t boards : {2, 3, 5, 6}) EXPECT_LT(seconds(4), seconds(boards)) << boards;
  // An exchange over the host instead of a cable makes a row useless.
  ChainBoard slow = kVc709;
  slow.cable_seconds = 15e-6;
  const auto row = best_row(kLstm, slow, 2, 16);
  EXPECT_GT(row->forward_seconds, 20e-6);
}

// Boards make as large a part of the features each as of the cells, wait for both products of a step, and exchange behind each.
TEST(BoardRow, ProjectionsDivideWithTheCells) {
  const ChainBoard vu13p{
      .name = "vu13p", .dsp = 12288, .bram36 = 2688, .uram = 1280, .clock_hz = 400e6, .cable_bits_per_second = 1e11, .cable_seconds = 1e-6};
  constexpr RecurrentSize kEncoder{.cells = 2048, .fed_back = 640};
  std::string why;
  const auto row = best_row(kEncoder, vu13p, 2, 32, &why);
  ASSERT_TRUE(row) << why;
  RecurrentSize half = kEncoder;
  half.units = 1024;
  const auto alone = best_row(half, vu13p, 1, 32, &why);
  ASSERT_TRUE(alone) << why;
  EXPECT_EQ(row->forward_cycles, alone->forward_cycles);
  EXPECT_EQ(row->words, alone->words);
  const auto crossing = [](double elements) { return 1e-6 + elements * 32 / 1e11; };
  const auto seconds = [](int64_t cycles) { return static_cast<double>(cycles) / 400e6; };
  EXPECT_DOUBLE_EQ(row->forward_seconds, seconds(row->forward_cycles) + crossing(1024) + crossing(320));
  EXPECT_DOUBLE_EQ(row->back_seconds, seconds(row->back_cycles) + crossing(320) + crossing(4 * 1024));
  // Of 1,024 units and 320 features: the first product takes 640 of h in F, the second 2,048 units dealt to four; back 2,048 and 640.
  PeChainHardware built = chain_for(
      {.element_bits = 32, .products = {{1024, 2048}}, .chains = row->chains, .projected = 320, .all_units = 2048, .all_features = 640},
      row->elements / row->chains);
  const StepExtent extent{1024, 320, 2048, 640};
  for (const bool back : {false, true}) {
    const StepSettings s = settings_of(built, extent, back);
    EXPECT_EQ(s.recurrent.feeds, back ? 2048 : 640);
    EXPECT_EQ(s.projection.feeds, back ? 160 : 512);
    EXPECT_EQ(back ? row->back_cycles : row->forward_cycles, lone_step_cycles(built, s, 1, back));
    EXPECT_EQ(row->words, built.words);
    // The first product's lone cycles are those of a layer without a projection; the second's are no fewer than its feeds and its way.
    const PassSettings plain = settings_of(built, back ? 320 : 1024, true, back ? 2048 : 640);
    PeChainHardware same = built;
    same.projects = false;
    const int64_t first = lone_step_cycles(same, StepSettings{.recurrent = plain, .projection = {}}, 1, back);
    EXPECT_GT(lone_step_cycles(built, s, 1, back) - first, s.projection.fullest());
  }
  EXPECT_TRUE(best_row(kEncoder, vu13p, 1, 16));
  EXPECT_FALSE(best_row({.cells = 7, .fed_back = 3}, vu13p, 2, 16, &why));
  EXPECT_EQ(why, "7 cells projected to 3 divide in the same proportion into 1 parts at most");
}

// An input of each of the four units lies in one word of the state: two chains do not do, where they would without.
TEST(BoardRow, ProjectionsNeedFourChains) {
  ChainBoard small{.name = "small", .dsp = 60 / kUsableDsp, .bram36 = 200, .clock_hz = 100e6};  // 48 slices of two chains, 96 of four
  std::string why;
  const auto plain = best_row({.cells = 8, .fed_back = 8}, small, 1, 16, &why);
  ASSERT_TRUE(plain) << why;
  EXPECT_EQ(plain->chains, 2);
  EXPECT_FALSE(best_row({.cells = 8, .fed_back = 4}, small, 1, 16, &why));
  EXPECT_NE(why.find("of them for the gates"), std::string::npos) << why;
  small.dsp = 100 / kUsableDsp;
  const auto projected = best_row({.cells = 8, .fed_back = 4}, small, 1, 16, &why);
  ASSERT_TRUE(projected) << why;
  EXPECT_EQ(projected->chains, 4);
}

// The paper's 768 elements do not hold its encoder of RNN-T in 8,192 words each; chains of 16 do.
TEST(BoardRow, EnginesMayBeGiven) {
  ChainBoard vu13p{
      .name = "vu13p", .dsp = 12288, .bram36 = 2688, .uram = 1280, .clock_hz = 400e6, .cable_bits_per_second = 1e11, .cable_seconds = 1e-6};
  constexpr RecurrentSize kEncoder{.cells = 2048, .fed_back = 640};
  std::string why;
  vu13p.dimensions = chain_dimensions_from("16x12x8192");
  EXPECT_FALSE(best_row(kEncoder, vu13p, 1, 32, &why));
  EXPECT_EQ(why,
            "an engine of 16x12x8192 puts 8928 weights on its fullest element, which holds 8192; 16x14x8192 would do, on a board that has "
            "room for it");
  vu13p.dimensions = chain_dimensions_from("16x16x8192");
  const auto row = best_row(kEncoder, vu13p, 1, 32, &why);
  ASSERT_TRUE(row) << why;
  EXPECT_EQ(row->elements, 256);
  EXPECT_EQ(row->words, 6400);
  EXPECT_EQ(row->urams, 1024);                            // of 8,192 words for each two of 1,024 elements, whatever the layer fills
  EXPECT_THROW(best_row(kEncoder, vu13p, 1, 16), Error);  // 32 chains fill the port there
  for (const char* wrong : {"", "16", "16x12", "16x12x", "16x12x0", "16x12x8192x", "ax12x8192", "16x64x8192", "-1x12x8192"})
    EXPECT_THROW(chain_dimensions_from(wrong), Error) << wrong;
}

}  // namespace millrace
