// What the race checker has found, and as text: which places of the source, by addr2line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "emulator/race.h"

namespace emulator::race {

/// The place in the program of an address in its code.
uint32_t site_of(const void* code);

/// "norm.cu:88 via device/reduce.cuh:41": the lines of the tree that were inlined there; "?" where nothing is known.
std::vector<std::string> lines_of(const std::vector<uint32_t>& sites);

struct Actor {
  size_t thread = 0, block = 0;
  Access kind = Access::Read;
  uint32_t site = 0;
};

enum class Fault : uint8_t { Race, CopyInFlight, SourceOfCopy, Uninitialized };

struct Finding {
  Fault fault;
  std::string kernel;
  bool shared = false;
  size_t byte = 0;    // from the beginning of the shared variable, or of the device's allocation
  Actor now, before;  // before: of Race and of copies
};

/// "thread 3 of block 0 uses an address that is not a multiple of 16 at norm.cu:88"
std::string misalignment(const Actor& now, size_t alignment);

class Findings {
 public:
  void add(const Finding& finding);
  std::vector<std::string> take(size_t most);

 private:
  using Places = std::tuple<Fault, std::string, uint32_t, uint32_t>;
  std::map<Places, size_t> seen_;  // place in first_
  std::vector<Finding> first_;     // of each pair of places
  std::vector<size_t> times_;
};

}  // namespace emulator::race
