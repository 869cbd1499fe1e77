// A warp that runs a program. Its lanes go on together as long as they can: the group of lanes that is least far in the
// code runs first, so that lanes that went different ways meet again where those ways do.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "ptx/memory.h"
#include "ptx/program.h"

namespace ptx {

/// Calls f(lane) for each of the lanes.
template <class F>
void for_each_lane(Lanes lanes, F f) {
  for (; lanes != 0; lanes &= lanes - 1) f(static_cast<unsigned>(__builtin_ctz(lanes)));
}

/// cp.async
struct Copy {
  uint64_t to = 0;  // in shared memory
  const std::byte* from = nullptr;
  unsigned bytes = 0, n_valid = 0;
};

/// What the special registers hold in each lane, by Special.
using Specials = std::array<std::array<uint32_t, kWarp>, kSpecials>;

class Warp {
 public:
  enum class State : uint8_t { AtBarrier, Done };

  /// Its first thread of the block.
  Warp(const Program& program, Memory& memory, unsigned first_thread);

  /// The first n_lanes lanes begin the program.
  void begin(unsigned n_lanes, const Specials& specials);

  /// As far as it gets without the other warps. Throws Error that names line and lanes.
  State run();

  // For instructions:

  template <class T>
  T* values(Slot slot) {
    return reinterpret_cast<T*>(registers_.data() + slot.at);
  }
  bool is_defined(Slot slot, unsigned lane) const { return defined_[slot.index] >> lane & 1; }
  Memory& memory() { return memory_; }
  unsigned thread(unsigned lane) const { return first_thread_ + lane; }
  uint64_t address(const Address& a, unsigned lane) {
    const uint64_t base = a.wide ? values<uint64_t>(a.base)[lane] : values<uint32_t>(a.base)[lane];
    return base + static_cast<uint64_t>(a.offset);
  }
  const std::byte* read(const Address& a, size_t bytes, unsigned lane) {
    lane_ = lane;
    return memory_.read(a.space, address(a, lane), bytes, thread(lane));
  }
  std::byte* write(const Address& a, size_t bytes, unsigned lane) {
    lane_ = lane;
    return memory_.write(a.space, address(a, lane), bytes, thread(lane));
  }
  void start_copy(unsigned lane, const Copy& copy) { copies_[lane].open.push_back(copy); }
  void commit_copies(unsigned lane);
  void wait_copies(unsigned lane, size_t pending);

  unsigned last_lane() const { return lane_; }

 private:
  struct Group {
    uint32_t pc;
    Lanes lanes;
    bool waiting;  // for lanes of other groups
  };
  struct Copies {
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> committed;
  };

  enum class Outcome : uint8_t { Next, Regroup, Barrier };

  void merge_groups();
  Group& next_group();
  Outcome run_group(Group& group);
  Outcome step(Group& group);
  Outcome branch(Group& group, const Instruction& i, Lanes taken);
  Lanes executing(const Instruction& i, Lanes lanes);
  bool all_there(const Group& group, const Instruction& i, Lanes lanes);
  Lanes named(const Instruction& i, Lanes lanes);
  void require_defined(const Instruction& i, Lanes lanes) const;
  Lanes live() const;

  const Program& program_;
  Memory& memory_;
  unsigned first_thread_;
  Lanes lanes_ = 0;  // that began
  std::vector<std::byte> registers_;
  std::vector<Group> groups_;
  unsigned lane_ = 0;  // whose memory was last asked for
  std::vector<Lanes> defined_, defined_at_start_;
  std::array<Copies, kWarp> copies_;
};

}  // namespace ptx
