// Runs a program for a grid: block after block, in a block warp after warp from barrier to barrier.
#pragma once

#include <cstddef>
#include <vector>

#include "emulator/emulator.h"
#include "ptx/banks.h"
#include "ptx/module.h"
#include "ptx/program.h"

namespace ptx {

/// Lays arguments out as the program's parameters; throws Error unless number, sizes and alignments are theirs.
std::vector<std::byte> parameters_of(const Program& program, const std::vector<emulator::Argument>& arguments);

struct Launch {
  const Module& module;
  const Program& program;
  emulator::Extent grid, block;
  size_t shared_bytes = 0;
  std::vector<std::byte> parameters;
};

/// What all blocks together wanted of shared memory. Throws Error that names the kernel, the block, the line of the PTX
/// and the thread.
BankUse run(const Launch& launch);

}  // namespace ptx
