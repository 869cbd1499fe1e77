#include "ptx/memory.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "emulator/memory.h"

namespace ptx {
namespace {

constexpr size_t kRemembered = 8;  // allocations; a kernel has few arguments

[[noreturn]] void fail(const char* space, uint64_t address, size_t bytes, const std::string& what) {
  std::ostringstream message;
  message << bytes << " bytes of " << space << " memory at 0x" << std::hex << address << ' ' << what;
  throw Error(message.str());
}

void check_alignment(uint64_t address, size_t bytes, const char* space) {
  if (address % bytes != 0) fail(space, address, bytes, "are not aligned to their size");
}

}  // namespace

void CheckedBytes::resize(size_t bytes) {
  bytes_.assign(bytes, std::byte{0});
  states_.assign(bytes, State::Outside);
}

void CheckedBytes::fill(size_t at, size_t bytes, State state) {
  std::fill_n(states_.begin() + static_cast<ptrdiff_t>(at), bytes, state);
}

void CheckedBytes::check_extent(uint64_t at, size_t bytes, const char* name) const {
  if (at >= bytes_.size() || bytes > bytes_.size() - at) fail(name, at, bytes, "lie outside of it");
}

const std::byte* CheckedBytes::read(uint64_t at, size_t bytes, const char* name) const {
  check_extent(at, bytes, name);
  const State* const states = states_.data() + at;
  for (size_t i = 0; i < bytes; ++i) {
    if (states[i] == State::Written) continue;
    if (states[i] == State::Outside) fail(name, at, bytes, "lie outside of its variables");
    fail(name, at, bytes,
         states[i] == State::InFlight ? "are read while cp.async may still write them"
                                      : "are read before anything is written");
  }
  return bytes_.data() + at;
}

std::byte* CheckedBytes::write(uint64_t at, size_t bytes, const char* name) {
  check_extent(at, bytes, name);
  for (size_t i = at; i < at + bytes; ++i) {
    if (states_[i] == State::Outside) fail(name, at, bytes, "lie outside of its variables");
    if (states_[i] == State::InFlight) fail(name, at, bytes, "are written while cp.async may still write them");
    states_[i] = State::Written;
  }
  return bytes_.data() + at;
}

Memory::Memory(const Module& module, const Program& program, std::vector<std::byte> parameters, size_t dynamic_bytes,
               size_t n_threads)
    : program_(program), parameters_(std::move(parameters)), dynamic_bytes_(dynamic_bytes) {
  shared_.resize(program.dynamic_at + dynamic_bytes);
  local_.resize(n_threads * program.local_bytes);
  for (const auto& [name, bytes] : module.global) variables_.push_back({bytes.data(), bytes.size(), true});
}

void Memory::begin_block() {
  for (const Placed& p : program_.shared) shared_.fill(p.at, p.variable.bytes, CheckedBytes::State::Unwritten);
  shared_.fill(program_.dynamic_at, dynamic_bytes_, CheckedBytes::State::Unwritten);
  local_.fill(0, local_.size(), CheckedBytes::State::Unwritten);
}

bool Memory::in_range(const Range& range, uint64_t address, size_t bytes) const {
  const uint64_t at = address - reinterpret_cast<uint64_t>(range.begin);
  return at < range.bytes && bytes <= range.bytes - at;
}

const Memory::Range& Memory::allocation(uint64_t address, size_t bytes) {
  const auto holds = [&](const Range& r) { return in_range(r, address, bytes); };
  const auto met = std::find_if(ranges_.begin(), ranges_.end(), holds);
  if (met != ranges_.end()) return *met;
  const auto variable = std::find_if(variables_.begin(), variables_.end(), holds);
  if (variable != variables_.end()) return *variable;
  const emulator::Allocation a = emulator::allocation_of(reinterpret_cast<const void*>(address));
  const Range range{static_cast<const std::byte*>(a.begin), a.bytes, false};
  if (!in_range(range, address, bytes)) fail("global", address, bytes, "lie in no allocation");
  if (ranges_.size() == kRemembered) ranges_.pop_back();
  return *ranges_.insert(ranges_.begin(), range);
}

const std::byte* Memory::global(uint64_t address, size_t bytes) {
  allocation(address, bytes);
  return reinterpret_cast<const std::byte*>(address);  // the host's
}

const std::byte* Memory::read(Space space, uint64_t address, size_t bytes, size_t thread) {
  if (space == Space::Generic) {
    if (address < kWindow) return read(Space::Global, address, bytes, thread);
    for (const Space s : {Space::Shared, Space::Local, Space::Parameter})
      if (address / kWindow == window_of(s) / kWindow) return read(s, address % kWindow, bytes, thread);
    fail("generic", address, bytes, "lie in no address space");
  }
  switch (space) {
    case Space::Global:
      check_alignment(address, bytes, "global");
      return global(address, bytes);
    case Space::Shared:
      check_alignment(address, bytes, "shared");
      request_.add(static_cast<unsigned>(thread % kWarp), address, bytes);
      return shared_.read(address, bytes, "shared");
    case Space::Local:
      check_alignment(address, bytes, "local");
      if (address + bytes > program_.local_bytes) fail("local", address, bytes, "lie outside of it");
      return local_.read(thread * program_.local_bytes + address, bytes, "local");
    default:
      check_alignment(address, bytes, "parameter");
      if (address + bytes > parameters_.size()) fail("parameter", address, bytes, "lie outside of it");
      return parameters_.data() + address;
  }
}

std::byte* Memory::write(Space space, uint64_t address, size_t bytes, size_t thread) {
  if (space == Space::Generic) {
    if (address < kWindow) return write(Space::Global, address, bytes, thread);
    for (const Space s : {Space::Shared, Space::Local})
      if (address / kWindow == window_of(s) / kWindow) return write(s, address % kWindow, bytes, thread);
    fail("generic", address, bytes, "cannot be written");
  }
  switch (space) {
    case Space::Global:
      check_alignment(address, bytes, "global");
      if (allocation(address, bytes).constant) fail("global", address, bytes, "belong to a constant table");
      return reinterpret_cast<std::byte*>(address);
    case Space::Shared:
      check_alignment(address, bytes, "shared");
      request_.add(static_cast<unsigned>(thread % kWarp), address, bytes);
      return shared_.write(address, bytes, "shared");
    case Space::Local:
      check_alignment(address, bytes, "local");
      if (address + bytes > program_.local_bytes) fail("local", address, bytes, "lie outside of it");
      return local_.write(thread * program_.local_bytes + address, bytes, "local");
    default:
      fail("parameter", address, bytes, "cannot be written");
  }
}

void Memory::forget(Space space, uint64_t address, size_t bytes, size_t thread) {
  if (space == Space::Shared) shared_.fill(address, bytes, CheckedBytes::State::Unwritten);
  if (space == Space::Local)
    local_.fill(thread * program_.local_bytes + address, bytes, CheckedBytes::State::Unwritten);
}

void Memory::begin_copy(uint64_t shared_address, size_t bytes, size_t thread) {
  write(Space::Shared, shared_address, bytes, thread);
  shared_.fill(shared_address, bytes, CheckedBytes::State::InFlight);
}

void Memory::land(uint64_t shared_address, size_t bytes, const std::byte* from) {
  shared_.fill(shared_address, bytes, CheckedBytes::State::Written);
  std::memcpy(shared_.write(shared_address, bytes, "shared"), from, bytes);
}

}  // namespace ptx
