// How the emulator runs, from the environment of a test program: KVCAL_EMULATOR_ORDER is the order of the threads of a
// block (ascending, descending or shuffled); KVCAL_EMULATOR_TIMING=late does all work of the device when somebody waits
// for it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "emulator/emulator.h"

namespace kvcal::test {

class Emulation : public testing::Environment {
 public:
  void SetUp() override {
    const char* name = std::getenv("KVCAL_EMULATOR_ORDER");
    const std::string order = name ? name : "ascending";
    if (order == "descending")
      emulator::set_order(emulator::Order::Descending);
    else if (order == "shuffled")
      emulator::set_order(emulator::Order::Shuffled);
    else
      ASSERT_EQ(order, "ascending") << "KVCAL_EMULATOR_ORDER is ascending, descending or shuffled";
    if (const char* timing = std::getenv("KVCAL_EMULATOR_TIMING")) {
      ASSERT_EQ(std::string(timing), "late") << "KVCAL_EMULATOR_TIMING is late, or not set";
      emulator::set_timing(emulator::Timing::Late);
    }
  }
};

}  // namespace kvcal::test
