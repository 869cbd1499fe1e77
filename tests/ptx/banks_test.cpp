// Conflicts of banks, by hand.
#include "ptx/small_kernel.h"

namespace ptx::test {
namespace {

struct Counted {
  uint64_t needed, taken;
};

/// Lane l at `stride` l, so many bytes each.
Counted strided(uint64_t stride, size_t bytes, unsigned n_lanes = 32) {
  BankRequest request;
  for (unsigned lane = 0; lane < n_lanes; ++lane) request.add(lane, 1024 + lane * stride, bytes);
  const BankUse use = request.take();
  return {use.needed, use.taken};
}

void expect(const Counted& counted, uint64_t needed, uint64_t taken) {
  EXPECT_EQ(counted.needed, needed);
  EXPECT_EQ(counted.taken, taken);
}

TEST(Banks, ByStride) {
  expect(strided(4, 4), 1, 1);
  expect(strided(0, 4), 1, 1);  // one word for all
  expect(strided(1, 1), 1, 1);  // four lanes a word
  expect(strided(2, 2), 1, 1);
  expect(strided(8, 4), 1, 2);
  expect(strided(128, 4), 1, 32);
  expect(strided(132, 4), 1, 1);
  expect(strided(8, 8), 2, 2);  // half of the lanes at a time
  expect(strided(16, 16), 4, 4);
  expect(strided(16, 16, 8), 1, 1);
  expect(strided(64, 16), 4, 16);
  expect(strided(80, 16), 4, 4);  // rows of a matrix, 64 bytes and 16 between them
}

TEST(Banks, ALaterRequestBeginsAnew) {
  BankRequest request;
  request.add(0, 0, 4);
  request.add(1, 128, 4);
  EXPECT_EQ(request.take().taken, 2U);
  EXPECT_EQ(request.take().needed, 0U);
}

/// Each thread writes its word and reads one of a column.
TEST(Banks, AreCountedWhileKernelsRun) {
  const Module module(kernel_of(R"(
    mul.lo.u32 %r1, %r0, 16;
    mov.u32 %r2, table;
    add.s32 %r1, %r1, %r2;
    st.shared.u32 [%r1], %r0;
    ld.shared.u32 %r3, [%r1];
    st.global.u32 [%d1], %r3;)"));
  const Program program = compile(module, module.entries.at("small"));
  void* const memory = emulator::allocate_device(32 * sizeof(Words));
  const BankUse use =
      run({module, program, {}, {32, 1, 1}, 0, parameters_of(program, {{&memory, sizeof(memory), alignof(void*)}})});
  emulator::free_device(memory);
  EXPECT_EQ(use.needed, 2U);
  EXPECT_EQ(use.taken, 8U);  // eight lanes lie in different banks
}

}  // namespace
}  // namespace ptx::test
