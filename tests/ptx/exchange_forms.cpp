// What the lanes of a warp do together: shfl, redux, barriers. Warp has made sure that those are there who must be.
#include <algorithm>

#include "ptx/forms.h"

namespace ptx {
namespace {

enum class Mode : uint8_t { Up, Down, Butterfly, Index };

struct Source {
  unsigned lane;
  bool in_range;
};

/// The pseudocode of shfl.sync: b is a lane or a distance; c holds a clamp and a mask that divides the warp.
Source source_of(Mode mode, unsigned lane, uint32_t b, uint32_t c) {
  const unsigned by = b & 31, clamp = c & 31, segment = c >> 8 & 31;
  const unsigned last = (lane & segment) | (clamp & ~segment), first = lane & segment;
  unsigned from = 0;
  bool in_range = false;
  switch (mode) {
    case Mode::Up:
      from = lane - by;
      in_range = static_cast<int>(from) >= static_cast<int>(last);
      break;
    case Mode::Down:
      from = lane + by;
      in_range = from <= last;
      break;
    case Mode::Butterfly:
      from = lane ^ by;
      in_range = from <= last;
      break;
    case Mode::Index:
      from = first | (by & ~segment);
      in_range = from <= last;
  }
  return {in_range ? from : lane, in_range};
}

template <Mode kMode>
void shuffle(Warp& warp, const Instruction& i, Lanes lanes) {
  std::array<uint32_t, kWarp> values;
  std::copy_n(warp.values<uint32_t>(i.from[0]), kWarp, values.begin());  // `to` may be the same register
  for_each_lane(lanes, [&](unsigned lane) {
    const Source s =
        source_of(kMode, lane, warp.values<uint32_t>(i.from[1])[lane], warp.values<uint32_t>(i.from[2])[lane]);
    if (!(lanes >> s.lane & 1))
      throw Error("the value of lane " + std::to_string(s.lane) + " is read, which takes no part");
    warp.values<uint32_t>(i.to[0])[lane] = values[s.lane];
    warp.values<bool>(i.to[1])[lane] = s.in_range;
  });
}

template <Mode kMode>
void add_shuffle(Forms& forms, const std::string& mode) {
  const Type number = type_of<uint32_t>(), bits = bits_of<uint32_t>();
  Form form{&shuffle<kMode>, {bits, type_of<bool>()}, {bits, number, number, number}};
  form.control = Control::Named;
  forms["shfl.sync." + mode + ".b32"] = form;
}

/// Over the lanes of each mask.
void reduce_most(Warp& warp, const Instruction& i, Lanes lanes) {
  std::array<uint32_t, kWarp> values;
  std::copy_n(warp.values<uint32_t>(i.from[0]), kWarp, values.begin());
  for_each_lane(lanes, [&](unsigned lane) {
    uint32_t most = 0;
    for_each_lane(warp.values<uint32_t>(i.from[1])[lane],
                  [&](unsigned other) { most = std::max(most, values[other]); });
    warp.values<uint32_t>(i.to[0])[lane] = most;
  });
}

void block_barrier(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    if (warp.values<uint32_t>(i.from[0])[lane] != 0) throw Error("barriers other than 0 are unknown");
  });
}

}  // namespace

void add_control_forms(Forms& forms) {
  for (const char* name : {"ret", "exit"}) {
    forms[name].control = Control::Return;
  }
  forms["bar.sync"] = {&block_barrier, {}, {type_of<uint32_t>()}, {}, Control::Barrier};
  forms["bar.warp.sync"] = {nullptr, {}, {type_of<uint32_t>()}, {}, Control::Named};
}

void add_exchange_forms(Forms& forms) {
  add_shuffle<Mode::Up>(forms, "up");
  add_shuffle<Mode::Down>(forms, "down");
  add_shuffle<Mode::Butterfly>(forms, "bfly");
  add_shuffle<Mode::Index>(forms, "idx");
  const Type number = type_of<uint32_t>();
  forms["redux.sync.max.u32"] = {&reduce_most, {number}, {number, number}, {}, Control::Named};
}

}  // namespace ptx
