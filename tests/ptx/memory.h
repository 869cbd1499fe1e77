// The memory that the threads of a block see. Every access is checked: it lies within one variable or allocation, is
// aligned to its size and, if it reads shared or local memory, reads what was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ptx/banks.h"
#include "ptx/program.h"

namespace ptx {

/// Bytes of one address space, each with what is known of it.
class CheckedBytes {
 public:
  enum class State : uint8_t { Outside, Unwritten, Written, InFlight };

  void resize(size_t bytes);  // all outside
  void fill(size_t at, size_t bytes, State state);
  size_t size() const { return bytes_.size(); }

  /// Throws Error that calls the space `name`.
  const std::byte* read(uint64_t at, size_t bytes, const char* name) const;
  std::byte* write(uint64_t at, size_t bytes, const char* name);

 private:
  void check_extent(uint64_t at, size_t bytes, const char* name) const;

  std::vector<std::byte> bytes_;
  std::vector<State> states_;
};

class Memory {
 public:
  /// `parameters` as the program lays them out.
  Memory(const Module& module, const Program& program, std::vector<std::byte> parameters, size_t dynamic_bytes,
         size_t n_threads);

  /// Shared and local memory forget what was written.
  void begin_block();

  const std::byte* read(Space space, uint64_t address, size_t bytes, size_t thread);
  std::byte* write(Space space, uint64_t address, size_t bytes, size_t thread);

  /// Shared or local memory of these bytes counts as not written.
  void forget(Space space, uint64_t address, size_t bytes, size_t thread);

  /// Of any number and alignment.
  const std::byte* global(uint64_t address, size_t bytes);

  /// A copy into these bytes has begun: nobody may read them before land().
  void begin_copy(uint64_t shared_address, size_t bytes, size_t thread);
  void land(uint64_t shared_address, size_t bytes, const std::byte* from);

  /// An instruction of a warp is over: what its lanes wanted of shared memory was one request.
  void end_instruction() { banks_ += request_.take(); }
  const BankUse& banks() const { return banks_; }

 private:
  struct Range {
    const std::byte* begin;
    size_t bytes;
    bool constant;
  };

  bool in_range(const Range& range, uint64_t address, size_t bytes) const;
  const Range& allocation(uint64_t address, size_t bytes);

  const Program& program_;
  std::vector<std::byte> parameters_;
  size_t dynamic_bytes_;
  CheckedBytes shared_, local_;
  BankRequest request_;
  BankUse banks_;
  std::vector<Range> ranges_;  // of global memory that were met, the last one first
  std::vector<Range> variables_;
};

}  // namespace ptx
