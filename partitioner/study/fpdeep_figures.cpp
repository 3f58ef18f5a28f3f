#include "partitioner/study/fpdeep_figures.h"

#include <array>
#include <limits>
#include <vector>

#include "partitioner/hybrid/hybrid_planner.h"
#include "partitioner/study/fpdeep_network.h"
#include "partitioner/study/study.h"

namespace millrace {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kAny = std::numeric_limits<double>::infinity();

constexpr std::string_view kEngines = "dsp dsp_engine_share dsp_per_mac_16 clock_hz";
constexpr std::string_view kLinear = "dsp dsp_engine_share dsp_per_mac_16 clock_hz link_gbps linear_tolerance";
constexpr std::string_view kInFlight = "dsp dsp_engine_share dsp_per_mac_16 clock_hz fully_connected_delay link_latency";
constexpr std::string_view kHours = "dsp dsp_engine_share dsp_per_mac_16 clock_hz rate_of_hours";
constexpr std::string_view kMemory = "bram36 element_bits";
constexpr std::string_view kPower = "watts_idle watts_per_gops dsp dsp_engine_share clock_hz";
constexpr std::string_view kCounts = "";
constexpr std::string_view kTable6 = "Table 6";
constexpr std::string_view kSection631 = "section 6.3.1";
constexpr std::string_view kSection633 = "section 6.3.3";

constexpr std::string_view kHoursContradiction =
    "its GOPS, MACs and 1,281,167 images make 0.78 to 0.83 of the hours it prints; it does not say where the rest goes";
constexpr std::string_view kFiveContradiction =
    "sections 1 and 3.4 keep every convolution on chip, and section 6.3.3 begins with five boards, whose memory does not hold them";
constexpr std::string_view kSlopeContradiction = "56 boards at 150 Gb/s make 93 at 250 Gb/s, not 100: the demand grows in proportion";
constexpr std::string_view kWidthContradiction =
    "Table 6 says single precision; its GOPS need a multiply-accumulate per DSP slice and cycle, its storage 16-bit elements";

constexpr std::string_view kFlopsOtherwise =
    "whole layers give boards unequal work, while data parallelism loses its reduction alone, which these links make short";
constexpr std::string_view kStorageOtherwise = "the two are within 1% of each other: every board of a divided layer has buffers of its own";
constexpr std::string_view kLinksOtherwise = "a cut inside a layer sends its sums before pooling, and a cut between two layers does not";

constexpr std::array kFigures = {
    FpdeepFigure{"conv_macs", "alexnet", "convolution MACs per image, FP", "G", kNone, "", "counted from the layers", 1.07655, 1.07665,
                 kCounts},
    FpdeepFigure{"conv_macs", "vgg16", "convolution MACs per image, FP", "G", kNone, "", "counted from the layers", 15.3465, 15.3475,
                 kCounts},
    FpdeepFigure{"conv_macs", "vgg19", "convolution MACs per image, FP", "G", kNone, "", "counted from the layers", 19.5075, 19.5085,
                 kCounts},
    FpdeepFigure{"dense_macs", "alexnet", "fully connected MACs per image, FP", "G", kNone, "", "counted from the layers", 0.05855, 0.05865,
                 kCounts},
    FpdeepFigure{"dense_macs", "vgg16", "fully connected MACs per image, FP", "G", kNone, "", "counted from the layers", 0.12355, 0.12365,
                 kCounts},
    FpdeepFigure{"dense_macs", "vgg19", "fully connected MACs per image, FP", "G", kNone, "", "counted from the layers", 0.12355, 0.12365,
                 kCounts},
    FpdeepFigure{"parameters", "alexnet", "parameters", "", kNone, "", "counted from the layers", 62378344, 62378344, kCounts},
    FpdeepFigure{"parameters", "vgg16", "parameters", "", kNone, "", "counted from the layers", 138357544, 138357544, kCounts},
    FpdeepFigure{"parameters", "vgg19", "parameters", "", kNone, "", "counted from the layers", 143667240, 143667240, kCounts},

    FpdeepFigure{"gops", "alexnet", "GOPS per FPGA, 15 boards", "GOPS", 1157, "", kTable6, 1157 * .97, 1157 * 1.03, kEngines},
    FpdeepFigure{"gops", "vgg16", "GOPS per FPGA, 15 boards", "GOPS", 1197, "", kTable6, 1197 * .97, 1197 * 1.03, kEngines},
    FpdeepFigure{"gops", "vgg19", "GOPS per FPGA, 15 boards", "GOPS", 1220, "", kTable6, 1220 * .97, 1220 * 1.03, kEngines},
    FpdeepFigure{"gops_order", "", "AlexNet's GOPS the lowest", "yes/no", 1, "", kTable6, 1, 1, kEngines},
    FpdeepFigure{"dsp_utilisation", "alexnet", "DSP slices used, 15 boards", "%", 80, "roughly", kSection631, 75, 90, kEngines},
    FpdeepFigure{"dsp_utilisation", "vgg16", "DSP slices used, 15 boards", "%", 80, "roughly", kSection631, 75, 90, kEngines},
    FpdeepFigure{"dsp_utilisation", "vgg19", "DSP slices used, 15 boards", "%", 80, "roughly", kSection631, 75, 90, kEngines},
    FpdeepFigure{"hours", "alexnet", "hours per epoch, 15 boards", "h", 0.17, "", kTable6, 0.133 * .97, 0.133 * 1.03, kEngines,
                 kHoursContradiction},
    FpdeepFigure{"hours", "vgg16", "hours per epoch, 15 boards", "h", 2.19, "", kTable6, 1.84 * .97, 1.84 * 1.03, kEngines,
                 kHoursContradiction},
    FpdeepFigure{"hours", "vgg19", "hours per epoch, 15 boards", "h", 2.76, "", kTable6, 2.34 * .97, 2.34 * 1.03, kEngines,
                 kHoursContradiction},
    FpdeepFigure{"hours_scaled", "alexnet", "the same at 0.82 of the rate (fitted)", "h", 0.17, "", kTable6, 0.17 * .94, 0.17 * 1.06,
                 kHours},
    FpdeepFigure{"hours_scaled", "vgg16", "the same at 0.82 of the rate (fitted)", "h", 2.19, "", kTable6, 2.19 * .94, 2.19 * 1.06, kHours},
    FpdeepFigure{"hours_scaled", "vgg19", "the same at 0.82 of the rate (fitted)", "h", 2.76, "", kTable6, 2.76 * .94, 2.76 * 1.06, kHours},
    FpdeepFigure{"gops_per_joule", "alexnet", "GOPS per joule, 15 boards", "GOPS/J", 37.09, "", kTable6, 37.09 * .98, 37.09 * 1.02, kPower},
    FpdeepFigure{"gops_per_joule", "vgg16", "GOPS per joule, 15 boards", "GOPS/J", 37.88, "", kTable6, 37.88 * .98, 37.88 * 1.02, kPower},
    FpdeepFigure{"gops_per_joule", "vgg19", "GOPS per joule, 15 boards", "GOPS/J", 38.13, "", kTable6, 38.13 * .98, 38.13 * 1.02, kPower},

    FpdeepFigure{"bram_at_home", "alexnet", "largest BRAM use of FPGAs 1-14, unbalanced", "%", kNone, "needs no balancing", kSection631, 0,
                 35, kMemory},
    FpdeepFigure{"bram_at_home", "vgg16", "largest BRAM use of FPGAs 1-14, unbalanced", "%", kNone, "needs balancing", kSection631, 150,
                 kAny, kMemory},
    FpdeepFigure{"bram_at_home", "vgg19", "largest BRAM use of FPGAs 1-14, unbalanced", "%", kNone, "needs balancing", kSection631, 150,
                 kAny, kMemory},
    FpdeepFigure{"bram_balanced", "alexnet", "largest BRAM use of FPGAs 1-14, balanced", "%", 80, "under", kSection631, 0, 80, kMemory},
    FpdeepFigure{"bram_balanced", "vgg16", "largest BRAM use of FPGAs 1-14, balanced", "%", 80, "under", kSection631, 55, 70, kMemory},
    FpdeepFigure{"bram_balanced", "vgg19", "largest BRAM use of FPGAs 1-14, balanced", "%", 80, "under", kSection631, 0, 88, kMemory},
    FpdeepFigure{"bram_barrier", "alexnet", "the same, FC waiting for the whole map", "%", 80, "under", kSection631, 0, kAny, kMemory},
    FpdeepFigure{"bram_barrier", "vgg16", "the same, FC waiting for the whole map", "%", 80, "under", kSection631, 0, kAny, kMemory},
    FpdeepFigure{"bram_barrier", "vgg19", "the same, FC waiting for the whole map", "%", 80, "under", kSection631, 0, kAny, kMemory},
    FpdeepFigure{"bram_blocks", "alexnet", "balanced, in whole BRAM blocks", "%", kNone, "", "not given", 0, kAny, kMemory},
    FpdeepFigure{"bram_blocks", "vgg16", "balanced, in whole BRAM blocks", "%", kNone, "", "not given", 0, kAny, kMemory},
    FpdeepFigure{"bram_blocks", "vgg19", "balanced, in whole BRAM blocks", "%", kNone, "", "not given", 0, kAny, kMemory},
    FpdeepFigure{"bram_plan", "alexnet", "balanced, held as long as millrace plan counts", "%", kNone, "", "not given", 0, kAny, kMemory},
    FpdeepFigure{"bram_plan", "vgg16", "balanced, held as long as millrace plan counts", "%", kNone, "", "not given", 0, kAny, kMemory},
    FpdeepFigure{"bram_plan", "vgg19", "balanced, held as long as millrace plan counts", "%", kNone, "", "not given", 0, kAny, kMemory},
    FpdeepFigure{"memory_32", "vgg16", "memory needed at 32 bits, 15 boards", "%", kNone, "", "Table 6's caption", 105, 145, kMemory,
                 kWidthContradiction},
    FpdeepFigure{"memory_32", "vgg19", "memory needed at 32 bits, 15 boards", "%", kNone, "", "Table 6's caption", 150, 195, kMemory,
                 kWidthContradiction},
    FpdeepFigure{"on_chip_32", "vgg16", "on chip at 32 bits, 15 boards", "yes/no", 1, "", "Table 6's caption", 0, 0, kMemory,
                 kWidthContradiction},
    FpdeepFigure{"on_chip_32", "vgg19", "on chip at 32 bits, 15 boards", "yes/no", 1, "", "Table 6's caption", 0, 0, kMemory,
                 kWidthContradiction},
    FpdeepFigure{"memory_5", "vgg16", "memory needed at full speed, 5 boards", "%", kNone, "", kSection633, 100, kAny, kMemory,
                 kFiveContradiction},
    FpdeepFigure{"memory_5", "vgg19", "memory needed at full speed, 5 boards", "%", kNone, "", kSection633, 100, kAny, kMemory,
                 kFiveContradiction},
    FpdeepFigure{"boards_for_80", "vgg16", "fewest boards below 80% of the memory", "boards", kNone, "", "not given", 9, 11, kMemory},
    FpdeepFigure{"boards_for_80", "vgg19", "fewest boards below 80% of the memory", "boards", kNone, "", "not given", 16, 18, kMemory},

    FpdeepFigure{"max_link", "", "largest one-direction link of the three, 15 boards", "Gb/s", 18.6, "", kSection631, 14.5, 20.5, kEngines},
    FpdeepFigure{"linear_150", "alexnet", "linear up to, 150 Gb/s both directions", "boards", 83, "", kSection633, 73, 88, kLinear},
    FpdeepFigure{"linear_150", "vgg16", "linear up to, 150 Gb/s both directions", "boards", 56, "", kSection633, 54, 60, kLinear},
    FpdeepFigure{"linear_150", "vgg19", "linear up to, 150 Gb/s both directions", "boards", 70, "", kSection633, 68, 76, kLinear},
    FpdeepFigure{"linear_order", "", "AlexNet beyond VGG-19 beyond VGG-16", "yes/no", 1, "", kSection633, 1, 1, kLinear},
    FpdeepFigure{"bypass_150", "alexnet", "the same, inputs bypassed whole, the paper's rates", "boards", kNone, "", "section 5.1, path 1",
                 0, kAny, kEngines},
    FpdeepFigure{"bypass_150", "vgg16", "the same, inputs bypassed whole, the paper's rates", "boards", 56, "", kSection633, 55, 57,
                 kEngines},
    FpdeepFigure{"bypass_150", "vgg19", "the same, inputs bypassed whole, the paper's rates", "boards", 70, "", kSection633, 69, 71,
                 kEngines},
    FpdeepFigure{"linear_250", "alexnet", "linear up to, 250 Gb/s both directions", "boards", 100, "at least", "abstract, section 7", 110,
                 kAny, kLinear},
    FpdeepFigure{"linear_250", "vgg16", "linear up to, 250 Gb/s both directions", "boards", 100, "at least", "abstract, section 7", 90, 98,
                 kLinear, kSlopeContradiction},
    FpdeepFigure{"linear_250", "vgg19", "linear up to, 250 Gb/s both directions", "boards", 100, "at least", "abstract, section 7", 110,
                 kAny, kLinear},

    FpdeepFigure{"idle_5", "alexnet", "idle stages, 5 boards", "%", 5, "under", kSection633, 0, 7, kEngines},
    FpdeepFigure{"idle_5", "vgg16", "idle stages, 5 boards", "%", 5, "under", kSection633, 0, 7, kEngines},
    FpdeepFigure{"idle_5", "vgg19", "idle stages, 5 boards", "%", 5, "under", kSection633, 0, 7, kEngines},
    FpdeepFigure{"idle_from_6", "alexnet", "idle stages, most of 6 to 100 boards", "%", 5, "under", kSection633, 0, 5, kEngines},
    FpdeepFigure{"idle_from_6", "vgg16", "idle stages, most of 6 to 100 boards", "%", 5, "under", kSection633, 0, 5, kEngines},
    FpdeepFigure{"idle_from_6", "vgg19", "idle stages, most of 6 to 100 boards", "%", 5, "under", kSection633, 0, 5, kEngines},
    FpdeepFigure{"idle_mean", "alexnet", "idle stages, mean of 31 to 100 boards", "%", kNone, "0.5-1", kSection633, 0.1, 1.1, kEngines},
    FpdeepFigure{"idle_mean", "vgg16", "idle stages, mean of 31 to 100 boards", "%", kNone, "0.5-1", kSection633, 0.1, 1.1, kEngines},
    FpdeepFigure{"idle_mean", "vgg19", "idle stages, mean of 31 to 100 boards", "%", kNone, "0.5-1", kSection633, 0.1, 1.1, kEngines},
    FpdeepFigure{"idle_most", "alexnet", "idle stages, most of 31 to 100 boards", "%", 1, "up to", kSection633, 0, 2, kEngines},
    FpdeepFigure{"idle_most", "vgg16", "idle stages, most of 31 to 100 boards", "%", 1, "up to", kSection633, 0, 2, kEngines},
    FpdeepFigure{"idle_most", "vgg19", "idle stages, most of 31 to 100 boards", "%", 1, "up to", kSection633, 0, 2, kEngines},

    FpdeepFigure{"topology_4", "vgg16", "2-D over 1-D cost, 4 boards", "ratio", kNone, "below 1", "section 4.2, Fig. 10", 0.66, 0.68,
                 "ring_ports"},
    FpdeepFigure{"topology_5", "vgg16", "2-D over 1-D cost, 5 boards", "ratio", kNone, "", "Fig. 10", 0.89, 0.91, "ring_ports"},
    FpdeepFigure{"topology_6", "vgg16", "2-D over 1-D cost, 6 boards", "ratio", kNone, "above 1", "section 4.2, Fig. 10", 1.19, 1.21,
                 "ring_ports"},
    FpdeepFigure{"topology_8", "vgg16", "2-D over 1-D cost, 8 boards", "ratio", kNone, "above 1", "section 4.2, Figs. 9, 10", 1.42, 1.44,
                 "ring_ports"},
    FpdeepFigure{"topology_order", "vgg16", "2-D better at 4 boards, 1-D for 6 to 16", "yes/no", 1, "", "section 4.2", 1, 1, "ring_ports"},

    FpdeepFigure{"rank_flops",
                 "vgg16",
                 "strategy pairs in order of FLOP utilisation",
                 "of 6",
                 6,
                 "",
                 "Table 5",
                 6,
                 6,
                 kEngines,
                 {},
                 kFlopsOtherwise},
    FpdeepFigure{
        "rank_storage", "vgg16", "strategy pairs in order of storage", "of 6", 6, "", "Table 5", 6, 6, kMemory, {}, kStorageOtherwise},
    FpdeepFigure{"rank_footprint",
                 "vgg16",
                 "strategy pairs in order of data moved",
                 "of 6",
                 6,
                 "",
                 "Table 5",
                 6,
                 6,
                 "link_gbps",
                 {},
                 kLinksOtherwise},
    FpdeepFigure{"rank_bandwidth",
                 "vgg16",
                 "strategy pairs in order of mean bandwidth",
                 "of 6",
                 6,
                 "",
                 "Table 5",
                 6,
                 6,
                 "link_gbps",
                 {},
                 kLinksOtherwise},

    FpdeepFigure{"unaligned", "alexnet", "unaligned samples, mini-batch 1,024, 100 boards", "samples", 5, "", "section 4.4", 2, 6,
                 kInFlight},
    FpdeepFigure{"unaligned", "vgg16", "unaligned samples, mini-batch 1,024, 100 boards", "samples", 5, "", "section 4.4", 2, 6, kInFlight},
    FpdeepFigure{"unaligned", "vgg19", "unaligned samples, mini-batch 1,024, 100 boards", "samples", 5, "", "section 4.4", 2, 6, kInFlight},
    FpdeepFigure{"unaligned_order", "", "AlexNet's unaligned samples the most", "yes/no", kNone, "", "not given", 1, 1, kInFlight},
    FpdeepFigure{"unaligned_barrier", "alexnet", "the same, FC waiting for the whole map", "samples", 5, "", "section 4.4", 0, kAny,
                 kInFlight},
    FpdeepFigure{"unaligned_barrier", "vgg16", "the same, FC waiting for the whole map", "samples", 5, "", "section 4.4", 0, kAny,
                 kInFlight},
    FpdeepFigure{"unaligned_barrier", "vgg19", "the same, FC waiting for the whole map", "samples", 5, "", "section 4.4", 0, kAny,
                 kInFlight},
};

}  // namespace

std::span<const FpdeepFigure> fpdeep_figures() { return kFigures; }

std::span<const CatalogueValue> fpdeep_rules() {
  static const std::vector<CatalogueValue> rules = {
      {"linear_tolerance", kLinearTolerance, "1", "chosen",
       "linear up to: a board fewer than the first ring that its links slow down by more than this share"},
      {"fully_connected_delay", kFullyConnectedDelay, "samples", "fitted",
       "for so long dense layers and the loss hold on to a sample, in samples in flight"},
      {"link_latency", kFpdeepHop, "us", "fitted", "to the next board, in samples in flight"},
      {"rate_of_hours", kRateOfPaperHours, "1", "fitted", "of Table 6's rate, so that its hours per epoch come out; it says not why"}};
  return rules;
}

}  // namespace millrace
