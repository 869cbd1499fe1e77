// Watches what the threads of emulated kernels do to memory, and finds what only chance makes right on a GPU: accesses
// of two threads that nothing orders, copies read before they arrive, shared memory read before it is written,
// addresses that are not aligned.
//
// Kernels are compiled with -fsanitize=thread, whose calls before every access end in instrumentation.cpp instead of
// the sanitizer's runtime. Two accesses of different threads to the same bytes, of which one writes and not both are
// atomic, are a finding unless one is ordered before the other: by an earlier launch, by __syncthreads() within a
// block, by __syncwarp() within a warp. Shuffles and matrix instructions order nothing. So one run in one order of
// threads says what every order could do with the same control flow. Streams are not looked at: launches come one after
// the other here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace emulator::race {

/// Whether anything is watched; instrumented code turns it on when it is loaded.
void watch(bool on);

// ---------------------------------------------------------------- told by the emulator

void begin_launch(const std::string& kernel);
void begin_block(size_t n_threads);
void shared_memory(const void* begin, size_t bytes);  // a range of the block's that begins now, uninitialised
void resume(size_t thread, const void* stack, size_t stack_bytes);
void pause();
void barrier();
void sync_warp(size_t first_thread, unsigned lanes);

/// AtomicRead: what `volatile` reads.
enum class Access : uint8_t { Read, Write, Atomic, AtomicRead };
/// Site: an address in the code of the running thread.
void access(const void* at, size_t bytes, Access kind, const void* site);
void begin_atomic(const void* at, size_t bytes, const void* site);  // how it is done inside is not watched
void end_atomic();
/// Ends the launch with an error, as a GPU would.
void misaligned(const void* at, size_t alignment, const void* site);

/// An asynchronous copy of the running thread, of which n_valid bytes are read.
struct CopyWatch {
  const void *to = nullptr, *from = nullptr;
  size_t bytes = 0, n_valid = 0;
  uint32_t moment = 0, site = 0;  // of its beginning
};
CopyWatch start_copy(void* to, const void* from, size_t bytes, size_t n_valid, const void* site);
void end_copy(const CopyWatch& copy);

/// A barrier, __syncwarp() or wait for copies at this site: true if it is to be left out.
bool leaves_out(const void* site);

// ---------------------------------------------------------------- for tests

/// One line for each kind of finding at a pair of places in the source, in the order they were found, the most after
/// `most` only counted; forgets them.
std::vector<std::string> take_findings(size_t most = 5);

/// Offsets in the program of the barriers, __syncwarp()s and waits that threads have reached; forgets them.
std::set<uint32_t> take_barriers();

/// From now on these are left out.
void leave_out(std::set<uint32_t> barriers);

int64_t n_accesses();

}  // namespace emulator::race
