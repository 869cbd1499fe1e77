// How instructions are made of functions of one lane, for the files that list them.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "ptx/compile.h"
#include "ptx/warp.h"

namespace ptx {

void add_integer_forms(Forms& forms);
void add_extended_forms(Forms& forms);  // with a carry
void add_logic_forms(Forms& forms);
void add_float_forms(Forms& forms);
void add_pair_forms(Forms& forms);
void add_comparison_forms(Forms& forms);
void add_conversion_forms(Forms& forms);
void add_move_forms(Forms& forms);
void add_memory_forms(Forms& forms);
void add_atomic_forms(Forms& forms);
void add_control_forms(Forms& forms);
void add_exchange_forms(Forms& forms);
void add_matrix_forms(Forms& forms);
void add_copy_forms(Forms& forms);

/// to[0] = F()(from[0], from[1], ...) in each lane.
template <class F, class D, class... S>
struct EachLane {
  template <size_t... K>
  static void run(Warp& warp, const Instruction& i, Lanes lanes, std::index_sequence<K...>) {
    const std::tuple<const S*...> from{warp.values<S>(i.from[K])...};
    D* const to = warp.values<D>(i.to[0]);
    if (lanes == kAllLanes) {  // a loop without branches, which compilers make wide instructions of
      std::array<D, kWarp> results;
      for (unsigned lane = 0; lane < kWarp; ++lane) results[lane] = F{}(std::get<K>(from)[lane]...);
      std::memcpy(to, results.data(), sizeof(results));
    } else {
      for_each_lane(lanes, [&](unsigned lane) { to[lane] = F{}(std::get<K>(from)[lane]...); });
    }
  }
  static void execute(Warp& warp, const Instruction& i, Lanes lanes) {
    run(warp, i, lanes, std::index_sequence_for<S...>{});
  }
};

template <class F, class D, class... S>
Form each_lane() {
  return {&EachLane<F, D, S...>::execute, {type_of<D>()}, {type_of<S>()...}};
}

/// The same for instructions of .b types, which take any register of the size.
template <class F, class D, class... S>
Form each_lane_of_bits() {
  return {&EachLane<F, D, S...>::execute, {bits_of<D>()}, {bits_of<S>()...}};
}

}  // namespace ptx
