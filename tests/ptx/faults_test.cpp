// What threads may not do, and text that is no PTX: each is an error that says where.
#include "ptx/small_kernel.h"
#include "ptx/symbols.h"

namespace ptx::test {
namespace {

struct Case {
  const char *body, *message;
  unsigned n_threads = 32;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.body; }

class Faults : public testing::TestWithParam<Case> {};

TEST_P(Faults, AreSaid) {
  const std::string message = message_of_small(GetParam().body, GetParam().n_threads);
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

constexpr Case kFaults[] = {
    {"\nfoo.s32 %r1, %r0;", "line 10: instruction 'foo.s32' is unknown"},
    {"add.s32 %r1, %r0;", "has 2 operands, expected 3"},
    {"add.s32 %f1, %r0, 1;", "register '%f1' is a .f32, expected a .s32"},
    {"add.s32 %r1, %q0, 1;", "register '%q0' is not declared"},
    {"mov.f32 %f1, 1;", "'1' is no .f32"},
    {"bra $nowhere;", "label '$nowhere' stands before no instruction"},
    {"add.s32 %r1, %r2, 1;", "lanes 0xffffffff read a register before anything is written"},
    {"@%p1 add.s32 %r1, %r0, 1;", "its predicate is read before"},
    {"setp.lt.u32 %p1, %r0, 4; @%p1 mov.u32 %r1, 0; add.s32 %r2, %r1, 1;", "lanes 0xfffffff0 read a register"},
    {"div.s32 %r1, %r0, 0;", "by zero"},
    {"ld.global.u32 %r1, [%d0+512];", "thread 0: 4 bytes of global memory"},
    {"ld.global.u32 %r1, [%d1+16];", "thread 31: 4 bytes of global memory"},
    {"ld.global.u32 %r1, [%d1+2];", "are not aligned to their size"},
    {"ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1+8];", "are not aligned to their size"},
    {"ld.shared.u32 %r1, [table];", "are read before anything is written"},
    {"ld.shared.u32 %r1, [table+510];", "4 bytes at 510 of 'table', which has 512"},
    {"mov.u32 %r1, table; st.shared.u32 [%r1+512], 0;", "lie outside of"},
    {"mov.u64 %d2, dynamic; st.shared.u32 [%d2], 0;", "lie outside of"},
    {"ld.shared.u32 %r1, [0];", "is not declared"},
    {"ld.param.u64 %d2, [small_out+8];", "8 bytes at 8 of 'small_out', which has 8"},
    {"st.shared.v2.u32 [table], {%r1, %r0}; ld.shared.u32 %r2, [table];", "are read before anything is written"},
    {"st.global.u32 [%d1], %r1;", "read a register before"},
    {"mov.u32 %r1, table; mad.lo.s32 %r2, %r0, 16, %r1; cp.async.cg.shared.global [%r2], [%d0], 16, 16; ld.shared.u32 "
     "%r3, [table];",
     "are read while cp.async may still write"},
    {"mov.u32 %r1, table; cp.async.cg.shared.global [%r1], [%d0+8], 16, 16;", "not aligned to 16"},
    {"mov.u32 %r1, table; cp.async.cg.shared.global [%r1], [%d0], 16, 17;", "reads 17 bytes for 16"},
    {"setp.lt.u32 %p1, %r0, 4; @%p1 bra $out; bar.sync 0; $out: mov.u32 %r1, 0;", "wait for lanes that do not come"},
    {"setp.lt.u32 %p1, %r0, 4; @%p1 ret; bar.sync 0;", "lanes 0xf have ended"},
    {"setp.lt.u32 %p1, %r0, 32; @%p1 ret; bar.sync 0;", "1 warps end while the others wait", 64},
    {"setp.lt.u32 %p1, %r0, 4; @%p1 bar.sync 0;", "come, but their predicate is off"},
    {"setp.lt.u32 %p1, %r0, 4; @%p1 ret; shfl.sync.bfly.b32 %r1|%p2, %r0, 1, 31, -1;", "lanes 0xf have ended"},
    {"shfl.sync.bfly.b32 %r1|%p2, %r0, 1, 31, 1;", "is not in its mask"},
    {"setp.lt.u32 %p1, %r0, 1; @!%p1 ret; shfl.sync.bfly.b32 %r1|%p2, %r0, 1, 31, 1;",
     "lane 1 is read, which takes no part"},
    {"setp.lt.u32 %p1, %r0, 4; @%p1 bra.uni $out; mov.u32 %r1, 0; $out: mov.u32 %r1, 0;", "go this way"},
    {"bar.sync 1;", "barriers other than 0 are unknown"},
};
INSTANTIATE_TEST_SUITE_P(Small, Faults, testing::ValuesIn(kFaults));

TEST(Parameters, MustBeThoseOfTheHost) {
  const Module module(kernel_of(""));
  const Program program = compile(module, module.entries.at("small"));
  const int32_t half = 0;
  EXPECT_THROW(parameters_of(program, {{&half, sizeof(half), alignof(int32_t)}}), Error);
  EXPECT_THROW(parameters_of(program, {}), Error);
}

TEST(Names, OfUnnamedNamespacesAreTheHosts) {
  EXPECT_EQ(as_the_host_mangles("_ZN5kvcal4cuda39_GLOBAL__N__10bc3666_7_rope_cu_ecc951de11rope_kernelIfEEvPKT_"),
            "_ZN5kvcal4cuda12_GLOBAL__N_111rope_kernelIfEEvPKT_");
  EXPECT_EQ(as_the_host_mangles("_ZN5kvcal4cuda6kernelEv"), "_ZN5kvcal4cuda6kernelEv");
}

}  // namespace
}  // namespace ptx::test
