#include "emulator/race.h"

#include <utility>

#include "emulator/emulator.h"
#include "emulator/memory.h"
#include "emulator/race_clock.h"
#include "emulator/race_findings.h"
#include "emulator/race_shadow.h"

namespace emulator::race {
namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
  bool holds(uintptr_t at) const { return at >= begin && at < end; }
};

bool g_watched = false;
std::string g_kernel;
Clock g_clock;
Shadow g_shadow;
Findings g_findings;
std::vector<Range> g_shared;                // of the running block
std::set<uint32_t> g_barriers, g_left_out;  // by site
int64_t g_accesses = 0;

// Of the running thread of a kernel. Code of other threads of the host is not watched.
thread_local bool t_running = false;
size_t g_thread = 0;
Range g_stack;

uintptr_t address_of(const void* at) { return reinterpret_cast<uintptr_t>(at); }

Range range_of(const void* begin, size_t bytes) { return {address_of(begin), address_of(begin) + bytes}; }

const Range* shared_range(uintptr_t at) {
  for (const Range& r : g_shared)
    if (r.holds(at)) return &r;
  return nullptr;
}

size_t offset(uintptr_t at, const Range* shared) {
  return shared ? at - shared->begin : offset_on_device(reinterpret_cast<const void*>(at));
}

Actor actor(const Stamp& s, Access kind) { return {s.thread, g_clock.block_of(s), kind, s.site}; }

/// One access of the running thread to the cells that it touches.
class Visit {
 public:
  Visit(uintptr_t at, Access kind, uint32_t site)
      : kind_(kind), now_(g_clock.stamp(g_thread, site)), shared_(shared_range(at)) {}

  template <class F>
  void each_cell(const void* begin, size_t bytes, F&& f) const {
    g_shadow.each_cell(address_of(begin), bytes, shared_ ? g_clock.block() : g_clock.launch(), f);
  }

  void touch(Cell& cell, uintptr_t at) {
    if (shared_ && kind_ != Access::Write && cell.written.moment == 0) report(Fault::Uninitialized, at, now_, kind_);
    if (cell.arriving) {
      report(Fault::CopyInFlight, at, cell.written, Access::Write);
      return;
    }
    check_order(cell, at);
    record(cell);
  }
  void start_arriving(Cell& cell, uintptr_t at) {
    if (cell.arriving) report(Fault::CopyInFlight, at, cell.written, Access::Write);
    check_order(cell, at);
    record(cell);
    cell.arriving = true;
  }
  void arrive(Cell& cell) {
    cell.arriving = false;
    cell.written.moment = now_.moment;
  }
  void finish_source(Cell& cell, uintptr_t at, uint32_t started) {
    if (cell.written.moment > started || !g_clock.ordered(cell.written, g_thread))
      report(Fault::SourceOfCopy, at, cell.written, Access::Write);
    record(cell);
  }

 private:
  void check_order(const Cell& cell, uintptr_t at) const {
    if (!g_clock.ordered(cell.written, g_thread)) report(Fault::Race, at, cell.written, Access::Write);
    if (kind_ == Access::Read || kind_ == Access::Write)
      if (const Stamp* s = cell.atomics.conflict(g_thread, g_clock)) report(Fault::Race, at, *s, Access::Atomic);
    if (kind_ == Access::Write || kind_ == Access::Atomic)
      if (const Stamp* s = cell.reads.conflict(g_thread, g_clock)) report(Fault::Race, at, *s, Access::Read);
  }
  void record(Cell& cell) const {
    if (kind_ == Access::Read)
      cell.reads.add(now_, g_clock);
    else if (kind_ != Access::Write)
      cell.atomics.add(now_, g_clock);
    else
      cell = {
          cell.since, now_, {}, {}, false};  // what is ordered after it is ordered after all before it, or was reported
  }
  void report(Fault fault, uintptr_t at, const Stamp& before, Access kind) const {
    g_findings.add({fault, g_kernel, shared_ != nullptr, offset(at, shared_), actor(now_, kind_), actor(before, kind)});
  }

  Access kind_;
  Stamp now_;
  const Range* shared_;
};

}  // namespace

void watch(bool on) { g_watched = on; }

void begin_launch(const std::string& kernel) {
  if (!g_watched) return;
  g_kernel = kernel;
  g_shadow.keep_small();
  g_clock.begin_launch();
}

void begin_block(size_t n_threads) {
  g_shared.clear();
  if (g_watched) g_clock.begin_block(n_threads);
}

void shared_memory(const void* begin, size_t bytes) {
  if (g_watched && bytes > 0) g_shared.push_back(range_of(begin, bytes));
}

void resume(size_t thread, const void* stack, size_t stack_bytes) {
  g_thread = thread;
  g_stack = range_of(stack, stack_bytes);
  t_running = g_watched;
}

void pause() { t_running = false; }

void barrier() {
  if (g_watched) g_clock.barrier();
}

void sync_warp(size_t first_thread, unsigned lanes) {
  if (g_watched) g_clock.sync_warp(first_thread, lanes);
}

void access(const void* at, size_t bytes, Access kind, const void* site) {
  if (!t_running || g_stack.holds(address_of(at))) return;
  ++g_accesses;
  Visit visit(address_of(at), kind, site_of(site));
  visit.each_cell(at, bytes, [&](Cell& cell, uintptr_t where) { visit.touch(cell, where); });
}

void begin_atomic(const void* at, size_t bytes, const void* site) {
  access(at, bytes, Access::Atomic, site);
  t_running = false;
}

void end_atomic() { t_running = g_watched; }

void misaligned(const void* at, size_t alignment, const void* site) {
  if (!t_running || g_stack.holds(address_of(at))) return;
  const Actor now = actor(g_clock.stamp(g_thread, site_of(site)), Access::Read);
  fail_launch(g_kernel + ": " + misalignment(now, alignment));
}

CopyWatch start_copy(void* to, const void* from, size_t bytes, size_t n_valid, const void* site) {
  if (!t_running) return {};
  if (n_valid > 0) access(from, n_valid, Access::Read, site);
  Visit visit(address_of(to), Access::Write, site_of(site));
  visit.each_cell(to, bytes, [&](Cell& cell, uintptr_t where) { visit.start_arriving(cell, where); });
  return {to, from, bytes, n_valid, g_clock.stamp(g_thread, 0).moment, site_of(site)};
}

void end_copy(const CopyWatch& c) {
  if (!t_running) return;
  Visit source(address_of(c.from), Access::Read, c.site), destination(address_of(c.to), Access::Write, c.site);
  source.each_cell(c.from, c.n_valid, [&](Cell& cell, uintptr_t at) { source.finish_source(cell, at, c.moment); });
  destination.each_cell(c.to, c.bytes, [&](Cell& cell, uintptr_t) { destination.arrive(cell); });
}

bool leaves_out(const void* site) {
  if (!t_running) return false;
  const uint32_t barrier = site_of(site);
  g_barriers.insert(barrier);
  return g_left_out.contains(barrier);
}

std::vector<std::string> take_findings(size_t most) { return g_findings.take(most); }
std::set<uint32_t> take_barriers() { return std::exchange(g_barriers, {}); }
void leave_out(std::set<uint32_t> barriers) { g_left_out = std::move(barriers); }
int64_t n_accesses() { return g_accesses; }

}  // namespace emulator::race
