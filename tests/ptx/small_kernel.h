// Kernels of a few instructions, for the interpreter's own tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "emulator/memory.h"
#include "ptx/compile.h"
#include "ptx/launch.h"

namespace ptx::test {

/// Declares registers %p, %h (16 bits), %r, %d (64), %f, %g (f64), puts a pointer to global memory in %d0 and one to
/// this thread's 16 bytes of it in %d1.
inline std::string kernel_of(const std::string& body) {
  return ".version 9.0\n.target sm_80\n.address_size 64\n"
         ".extern .shared .align 16 .b8 dynamic[];\n"
         ".entry small(.param .u64 small_out) {\n"
         ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<99>; .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .f64 %g<9>;\n"
         ".shared .align 16 .b8 table[512];\n"
         "ld.param.u64 %d0, [small_out]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 16; add.s64 %d1, %d0, %d1;\n" +
         body + "\nret;\n}\n";
}

struct Words {
  uint32_t x[4];
};

/// What the threads of one block leave in their 16 bytes. Throws Error.
inline std::vector<Words> run_small(const std::string& body, unsigned n_threads = 32, size_t dynamic_bytes = 0) {
  struct Allocated {
    void* memory;
    ~Allocated() { emulator::free_device(memory); }
  };
  const Module module(kernel_of(body));
  const Program program = compile(module, module.entries.at("small"));
  std::vector<Words> results(n_threads);
  const Allocated out{emulator::allocate_device(n_threads * sizeof(Words))};
  const std::vector<emulator::Argument> arguments{{&out.memory, sizeof(out.memory), alignof(void*)}};
  run({module, program, {}, {n_threads, 1, 1}, dynamic_bytes, parameters_of(program, arguments)});
  std::memcpy(results.data(), out.memory, n_threads * sizeof(Words));
  return results;
}

/// Of an Error; empty if there was none.
inline std::string message_of_small(const std::string& body, unsigned n_threads = 32) {
  try {
    run_small(body, n_threads);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace ptx::test
