// A run of a RowTiming: when each unit and step began and ended. Internal to fpga/conv_ce.
//
//   const RowEvents events(network, how.unlimited);
//   const RowTimes times = RowWalk(events, how).run();
//
// What waits for what is the same in every sample, so it is listed for one (row_events.h) and put in an order in which each event comes
// behind those that it waits for. Then a sample is one pass over a list of additions and maxima, whose times lie one behind the other; a
// ring without such an order stands still. What serves several samples in a pass, and makes nothing, comes behind the last of them, and who
// waits for it does so in each of them otherwise; where passes make something that their own samples wait for, all samples of a pass are
// one block of the list. Where part of a unit has to pass, how much that is is found again in every block, since it is rounded otherwise
// there: times are those of waiting event by event, to the last bit. Owns eight bytes for each event of the run, and the list; borrows the
// events.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "fpga/conv_ce/generator/row_events.h"
#include "fpga/conv_ce/generator/row_timing.h"

namespace millrace {

class RowWalk {
 public:
  RowWalk(const RowEvents& events, const RowRun& how);

  RowTimes run();

 private:
  // Not before so many seconds after an event.
  struct Wait {
    int32_t source = 0;  // place of the event, from the block's first
    uint32_t what = 0;   // twice the number of the seconds, and one more where it is the last of its event
  };
  // What a unit's place in the run says of times.
  struct Rule {
    // So much of a stream has passed: whole units less one queue's room, or any; the source gives it; what is listed for each sample of a
    // pass.
    enum class Kind : uint8_t { kPassedUnits, kPassed, kGiven, kVaries };
    Kind kind = Kind::kPassed;
    size_t stream = 0;
    bool are_units = false, counts_units = false, soon = false;
    double more = 0;
    double last_less = 0;
    std::vector<double> less = {};  // before that
    double least = 0, tail = 0;
    int64_t of_block = 0, units_of_block = 0;  // of what is counted, and units

    bool passes() const { return kind <= Kind::kPassed; }
  };
  // Not before that, found again in every block.
  struct Found {
    uint32_t wait = 0;  // behind so many waits, the first of an event
    uint32_t rule = 0;
    int64_t above = 0;           // in the first block; index into variants_
    int64_t unit = 0;            // that the rows pass, likewise
    int32_t begin = 0, end = 0;  // its places, from the block's first
  };
  // Of an event: its block, and which of the block's it is.
  struct Place {
    int64_t block = 0;
    uint32_t node = 0;
  };
  struct Cause;
  class Listing;

  bool prepare(int64_t samples_of_block);
  bool is_late(size_t entity) const;
  int64_t first_unit(size_t entity, int64_t block) const;
  Place place_of(const RowEvent& event) const;
  bool put_in_order(const Listing& listing);
  void take(const Listing& listing);
  template <bool kEarly>
  void run_block(int64_t index);
  double found_time(const Found& found, int64_t index, const double* now) const;
  double latest_of(const Found& found, int64_t index, const double* now) const;
  double given_at(int64_t rows) const;  // by the source

  double time_of(const RowEvent& event) const;
  std::vector<double> times_of(size_t entity, bool ends) const;
  Cause cause_of(const RowEvent& event) const;
  RowTimes times() const;
  double peak_of(const RowQueue& queue) const;

  static constexpr size_t kMemoryAtFirst = size_t{8} << 20;

  const RowEvents& events_;
  const RowRun how_;
  std::pmr::monotonic_buffer_resource memory_;  // of all that is long
  int64_t samples_of_block_ = 1, blocks_ = 1;
  std::vector<int64_t> units_;         // by entity: of a block, or of a pass
  std::vector<size_t> first_node_;     // by entity
  size_t late_nodes_ = 0, nodes_ = 0;  // events of a block: the first of a pass that comes late, and all
  std::pmr::vector<uint32_t> order_;   // of nodes
  std::pmr::vector<int32_t> places_;   // by node
  std::pmr::vector<Wait> waits_;
  size_t late_waits_ = 0;
  std::pmr::vector<Found> found_;
  std::vector<int32_t> variants_;  // places of passes' steps, by sample of a pass
  std::vector<Rule> rules_;
  std::vector<double> seconds_;
  int64_t reach_ = 0;        // blocks back
  double* times_ = nullptr;  // by block and place; never before the first
};

}  // namespace millrace
