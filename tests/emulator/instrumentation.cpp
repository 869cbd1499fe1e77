// What code compiled with -fsanitize=thread,alignment calls, in the place of the sanitizers' runtimes. Names and
// arguments are the compilers'.
#include "emulator/race.h"

using emulator::race::Access;

namespace {

/// The compiler emits plain calls for what it takes to be aligned, whatever the address is: a GPU ends the kernel.
void aligned_access(const void* at, size_t bytes, Access kind, const void* site) {
  if (reinterpret_cast<uintptr_t>(at) % bytes != 0) emulator::race::misaligned(at, bytes, site);
  emulator::race::access(at, bytes, kind, site);
}

struct TypeMismatch {  // of -fsanitize=alignment
  const char* file;
  uint32_t line, column;
  const void* type;
  uint8_t log_alignment, check;
};

}  // namespace

// A volatile read is how kernels look at what others change atomically.
#define KVCAL_ACCESSES(bytes)                                                                                   \
  void __tsan_read##bytes(void* at) { aligned_access(at, bytes, Access::Read, __builtin_return_address(0)); }   \
  void __tsan_write##bytes(void* at) { aligned_access(at, bytes, Access::Write, __builtin_return_address(0)); } \
  void __tsan_volatile_read##bytes(void* at) {                                                                  \
    aligned_access(at, bytes, Access::AtomicRead, __builtin_return_address(0));                                 \
  }                                                                                                             \
  void __tsan_volatile_write##bytes(void* at) {                                                                 \
    aligned_access(at, bytes, Access::Write, __builtin_return_address(0));                                      \
  }                                                                                                             \
  void __tsan_unaligned_read##bytes(void* at) {                                                                 \
    emulator::race::access(at, bytes, Access::Read, __builtin_return_address(0));                               \
  }                                                                                                             \
  void __tsan_unaligned_write##bytes(void* at) {                                                                \
    emulator::race::access(at, bytes, Access::Write, __builtin_return_address(0));                              \
  }

extern "C" {

void __tsan_init() { emulator::race::watch(true); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

KVCAL_ACCESSES(1)
KVCAL_ACCESSES(2)
KVCAL_ACCESSES(4)
KVCAL_ACCESSES(8)
KVCAL_ACCESSES(16)

void __tsan_read_range(void* at, size_t bytes) {
  emulator::race::access(at, bytes, Access::Read, __builtin_return_address(0));
}
void __tsan_write_range(void* at, size_t bytes) {
  emulator::race::access(at, bytes, Access::Write, __builtin_return_address(0));
}

void __ubsan_handle_type_mismatch_v1(TypeMismatch* mismatch, void* at) {
  emulator::race::misaligned(at, size_t{1} << mismatch->log_alignment, __builtin_return_address(0));
}

}  // extern "C"
