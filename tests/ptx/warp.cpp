#include "ptx/warp.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <sstream>
#include <utility>

namespace ptx {
namespace {

std::string in_hex(Lanes lanes) {
  std::ostringstream text;
  text << "0x" << std::hex << lanes;
  return text.str();
}

[[noreturn]] void fail(const Instruction& i, const std::string& what) {
  fail_at(i.line, std::string(i.name) + ": " + what);
}

template <class T>
void set_all(T* values, uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  std::fill_n(values, kWarp, value);
}

}  // namespace

Warp::Warp(const Program& program, Memory& memory, unsigned first_thread)
    : program_(program),
      memory_(memory),
      first_thread_(first_thread),
      registers_(program.register_bytes),
      defined_at_start_(program.n_registers, 0) {
  for (const Constant& c : program.constants) {
    defined_at_start_[c.slot.index] = kAllLanes;
    switch (c.type.bits) {
      case 8:
        set_all(values<uint8_t>(c.slot), c.bits);
        break;
      case 16:
        set_all(values<uint16_t>(c.slot), c.bits);
        break;
      case 32:
        set_all(values<uint32_t>(c.slot), c.bits);
        break;
      default:
        set_all(values<uint64_t>(c.slot), c.bits);
    }
  }
  for (const SpecialRegister& s : program.specials) defined_at_start_[s.slot.index] = kAllLanes;
}

void Warp::begin(unsigned n_lanes, const Specials& specials) {
  lanes_ = n_lanes == kWarp ? kAllLanes : (Lanes{1} << n_lanes) - 1;
  groups_.assign(1, {0, lanes_, false});
  defined_ = defined_at_start_;
  for (const SpecialRegister& s : program_.specials)
    std::copy_n(specials[static_cast<size_t>(s.which)].data(), kWarp, values<uint32_t>(s.slot));
  copies_.fill({});
}

Lanes Warp::live() const {
  Lanes all = 0;
  for (const Group& g : groups_) all |= g.lanes;
  return all;
}

Warp::State Warp::run() {
  for (;;) {
    merge_groups();
    if (groups_.empty()) return State::Done;
    if (run_group(next_group()) == Outcome::Barrier) return State::AtBarrier;
  }
}

/// Those that are at the same instruction become one.
void Warp::merge_groups() {
  std::sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) { return a.pc < b.pc; });
  size_t kept = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].lanes == 0) continue;
    if (kept > 0 && groups_[kept - 1].pc == groups_[i].pc)
      groups_[kept - 1] = {groups_[i].pc, groups_[kept - 1].lanes | groups_[i].lanes, false};
    else
      groups_[kept++] = groups_[i];
  }
  groups_.resize(kept);
}

Warp::Group& Warp::next_group() {
  for (Group& g : groups_)
    if (!g.waiting) return g;
  std::string places;
  for (const Group& g : groups_)
    places += (places.empty() ? "" : ", ") + in_hex(g.lanes) + " at line " + std::to_string(program_.code[g.pc].line);
  fail(program_.code[groups_[0].pc], "lanes of a warp wait for lanes that do not come: " + places);
}

Warp::Outcome Warp::run_group(Group& group) {
  uint32_t limit = std::numeric_limits<uint32_t>::max();  // the next group's place
  for (const Group& g : groups_)
    if (g.pc > group.pc) limit = std::min(limit, g.pc);
  for (;;) {
    const Outcome outcome = step(group);
    if (outcome != Outcome::Next) return outcome;
    if (group.pc >= limit) return Outcome::Regroup;
  }
}

/// The lanes for which the instruction is not switched off by its predicate.
Lanes Warp::executing(const Instruction& i, Lanes lanes) {
  if (!i.guarded) return lanes;
  if (lanes & ~defined_[i.guard.index]) fail(i, "its predicate is read before anything is written");
  const bool* const set = values<bool>(i.guard);
  Lanes on = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) on |= Lanes{set[lane]} << lane;
  return lanes & (i.negated ? ~on : on);
}

void Warp::require_defined(const Instruction& i, Lanes lanes) const {
  Lanes all = kAllLanes;
  if (!i.stores_undefined)
    for (size_t k = 0; k < i.n_from; ++k) all &= defined_[i.from[k].index];
  for (size_t k = 0; k < i.n_addresses; ++k) all &= defined_[i.address[k].base.index];
  if (lanes & ~all) fail(i, "lanes " + in_hex(lanes & ~all) + " read a register before anything is written to it");
}

Warp::Outcome Warp::step(Group& group) {
  const Instruction& i = program_.code[group.pc];
  const Lanes lanes = executing(i, group.lanes);
  if (lanes == 0) {
    ++group.pc;
    return Outcome::Next;
  }
  require_defined(i, lanes);
  if (i.control == Control::Branch) return branch(group, i, lanes);
  if (i.control == Control::Return) {
    group.lanes &= ~lanes;
    ++group.pc;
    return Outcome::Regroup;
  }
  if (i.control != Control::Plain && !all_there(group, i, lanes)) {
    group.waiting = true;
    return Outcome::Regroup;
  }
  try {
    if (i.execute) i.execute(*this, i, lanes);
  } catch (const Error& e) {
    fail(i, "thread " + std::to_string(thread(lane_)) + ": " + e.what());
  }
  memory_.end_instruction();
  for (size_t k = 0; k < i.n_to; ++k) defined_[i.to[k].index] |= lanes;
  ++group.pc;
  return i.control == Control::Barrier ? Outcome::Barrier : Outcome::Next;
}

Warp::Outcome Warp::branch(Group& group, const Instruction& i, Lanes taken) {
  if (taken == group.lanes) {
    group.pc = i.target;
    return groups_.size() == 1 ? Outcome::Next : Outcome::Regroup;
  }
  if (i.uniform) fail(i, "only lanes " + in_hex(taken) + " of " + in_hex(group.lanes) + " go this way");
  group.lanes &= ~taken;
  ++group.pc;
  groups_.push_back({i.target, taken, false});  // `group` may be gone
  return Outcome::Regroup;
}

/// Every lane's mask names the lane itself and says the same as the masks of the others that it names.
Lanes Warp::named(const Instruction& i, Lanes lanes) {
  const uint32_t* const masks = values<uint32_t>(i.from[i.n_from - 1U]);
  Lanes all = 0;
  for_each_lane(lanes, [&](unsigned lane) {
    if (!(masks[lane] >> lane & 1))
      fail(i, "lane " + std::to_string(lane) + " is not in its mask " + in_hex(masks[lane]));
    for_each_lane(masks[lane] & lanes, [&](unsigned other) {
      if (masks[other] != masks[lane]) fail(i, "lanes that name each other have different masks");
    });
    all |= masks[lane];
  });
  return all;
}

/// Whether those have come that the instruction needs; throws if they never will.
bool Warp::all_there(const Group& group, const Instruction& i, Lanes lanes) {
  const Lanes needed = i.control == Control::Named ? named(i, lanes) : i.control == Control::Whole ? kAllLanes : lanes_;
  const Lanes missing = needed & ~lanes;
  if (missing & ~live()) fail(i, "lanes " + in_hex(missing & ~live()) + " have ended, or never began");
  if (missing & group.lanes) fail(i, "lanes " + in_hex(missing & group.lanes) + " come, but their predicate is off");
  return missing == 0;
}

void Warp::commit_copies(unsigned lane) { copies_[lane].committed.push_back(std::exchange(copies_[lane].open, {})); }

void Warp::wait_copies(unsigned lane, size_t pending) {
  auto& groups = copies_[lane].committed;
  for (; groups.size() > pending; groups.pop_front())
    for (const Copy& c : groups.front()) {
      std::array<std::byte, 16> bytes{};
      if (c.n_valid > 0) std::memcpy(bytes.data(), c.from, c.n_valid);
      memory_.land(c.to, c.bytes, bytes.data());
    }
}

}  // namespace ptx
