// A run of a RowTiming: when each unit and step began and ended. Internal to fpga/conv_ce.
//
//   const RowEvents events(network, how.unlimited);
//   const RowTimes times = RowWalk(events, how).run();
//
// What waits for what is the same in every period of samples, so it is listed for one (row_events.h) and put in an order in which each
// event comes behind those that it waits for. Then a period is one pass over a list of additions and maxima, whose times lie one behind the
// other; a ring without such an order stands still. Where part of a unit has to pass, how much that is is found again in every period,
// since it is rounded otherwise there: times are those of waiting event by event, to the last bit. Owns eight bytes for each event of the
// run, and the list; borrows the events.
#pragma once

#include <cstdint>
#include <memory>
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
    int32_t source = 0;  // place of the event, from the period's first
    uint32_t what = 0;   // twice the number of the seconds, and one more where it is the last of its event
  };
  // What a unit's place in the run says of each time: rows that pass, or samples that a source gives.
  struct Rule {
    size_t stream = 0;
    bool gives = false;
    bool is_simple = false;    // one queue, and rows that are units
    bool counts_rows = false;  // which are no units
    bool counts_units = false, soon = false;
    double more = 0;
    double last_less = 0;
    std::vector<double> less = {};  // before that
    double least = 0, tail = 0;
    int64_t of_period = 0, units_of_period = 0;  // of the former rows, or units
  };
  // Not before that, found again in every period.
  struct Found {
    uint32_t wait = 0;  // behind so many waits, the first of an event
    uint32_t rule = 0;
    int64_t above = 0;           // in the first period
    int64_t unit = 0;            // that the rows pass, likewise
    int32_t begin = 0, end = 0;  // its places, from the period's first
  };
  struct Cause;
  class Listing;

  bool put_in_order(const Listing& listing);
  void take(const Listing& listing);
  template <bool kEarly>
  void run_period(int64_t index);
  double found_time(const Found& found, int64_t index, const double* now) const;
  double given_at(int64_t rows) const;  // by the source

  double time_of(const RowEvent& event) const;
  std::vector<double> times_of(size_t entity, bool ends) const;
  Cause cause_of(const RowEvent& event) const;
  RowTimes times() const;
  double peak_of(const RowQueue& queue) const;

  const RowEvents& events_;
  const RowRun how_;
  int64_t periods_ = 1;
  size_t nodes_ = 0;                // events of a period
  std::vector<int64_t> units_;      // of a period, by entity
  std::vector<size_t> first_node_;  // by entity
  std::vector<uint32_t> order_;     // of nodes, each behind those of its period that it waits for
  std::vector<int32_t> places_;     // by node
  std::vector<Wait> waits_;
  std::vector<Found> found_;
  std::vector<Rule> rules_;
  std::vector<double> seconds_;
  int64_t reach_ = 0;  // periods back
  std::unique_ptr<double[]> memory_;
  double* times_ = nullptr;  // by period and place
};

}  // namespace millrace
