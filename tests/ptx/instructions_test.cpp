// Instructions of one lane: results worked out by hand from the PTX ISA.
#include "ptx/small_kernel.h"

namespace ptx::test {
namespace {

struct Case {
  const char *text, *result;  // the register that holds it
  uint64_t bits;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.text; }

class Instructions : public testing::TestWithParam<Case> {};

TEST_P(Instructions, AsTheIsaSays) {
  const Case& c = GetParam();
  std::string store = std::string("[%d1], ") + c.result + ";";
  size_t bytes = 4;
  switch (c.result[1]) {
    case 'p':
      store = std::string("selp.u32 %r98, 1, 0, ") + c.result + "; st.global.u32 [%d1], %r98;";
      break;
    case 'h':
      store = "st.global.u16 " + store;
      bytes = 2;
      break;
    case 'r':
      store = "st.global.u32 " + store;
      break;
    case 'f':
      store = "st.global.f32 " + store;
      break;
    case 'd':
      store = "st.global.u64 " + store;
      bytes = 8;
      break;
    default:
      store = "st.global.f64 " + store;
      bytes = 8;
  }
  const std::vector<Words> results = run_small(std::string(c.text) + store);
  for (const size_t lane : {0, 31}) {
    uint64_t bits = 0;
    std::memcpy(&bits, &results[lane], bytes);
    EXPECT_EQ(bits, c.bits) << std::hex << bits << " in lane " << lane;
  }
}

constexpr Case kInteger[] = {
    {"add.s32 %r1, 2147483647, 1;", "%r1", 0x80000000},
    {"sub.s64 %d2, 0, 1;", "%d2", ~uint64_t{0}},
    {"mul.lo.s32 %r1, 65537, 65537;", "%r1", 131073},
    {"mul.hi.u32 %r1, 0xFFFFFFFF, 0xFFFFFFFF;", "%r1", 0xFFFFFFFE},
    {"mul.hi.s32 %r1, -1, 1;", "%r1", 0xFFFFFFFF},
    {"mul.wide.s32 %d2, -2, 3;", "%d2", static_cast<uint64_t>(-6)},
    {"mul.wide.u32 %d2, 0xFFFFFFFF, 2;", "%d2", 0x1FFFFFFFE},
    {"mad.lo.s32 %r1, 3, 5, -16;", "%r1", 0xFFFFFFFF},
    {"div.s32 %r1, -7, 2;", "%r1", static_cast<uint32_t>(-3)},
    {"rem.s32 %r1, -7, 2;", "%r1", 0xFFFFFFFF},
    {"rem.u32 %r1, 7, 4;", "%r1", 3},
    {"min.s64 %d2, -1, 1;", "%d2", ~uint64_t{0}},
    {"max.u32 %r1, 0xFFFFFFFF, 1;", "%r1", 0xFFFFFFFF},
    {"neg.s32 %r1, 5;", "%r1", static_cast<uint32_t>(-5)},
    {"clz.b64 %r1, 1;", "%r1", 63},
    {"shl.b32 %r1, 1, 32;", "%r1", 0},
    {"shr.u32 %r1, 0x80000000, 31;", "%r1", 1},
    {"shr.s32 %r1, 0x80000000, 40;", "%r1", 0xFFFFFFFF},
    {"bfi.b64 %d2, 0x5, 0xFF, 4, 4;", "%d2", 0x5F},
    {"mov.b32 %r1, 0x44332211; mov.b32 %r2, 0x88776655; prmt.b32 %r3, %r1, %r2, 0x7610;", "%r3", 0x88772211},
    {"mov.b32 %r1, 0x80332211; prmt.b32 %r3, %r1, 0, 0x000B;", "%r3", 0x111111FF},
    {"mad.lo.cc.u32 %r1, 0xFFFFFFFF, 1, 1; addc.u32 %r2, 5, 0;", "%r2", 6},
    {"sub.cc.u32 %r1, 0, 1; subc.u32 %r2, 5, 0;", "%r2", 4},
    {"not.pred %p1, 0; xor.pred %p2, %p1, -1;", "%p2", 0},
    {"setp.lt.s32 %p1, -1, 1; selp.b32 %r1, 7, 8, %p1;", "%r1", 7},
    {"setp.lt.u32 %p1, 0xFFFFFFFF, 1;", "%p1", 0},
    {"mov.b32 %r1, 0x00020001; mov.b32 {%h1, %h2}, %r1; mov.b32 %r2, {%h2, %h1};", "%r2", 0x00010002},
    {"mov.b64 %d2, {%r0, %r0}; mov.b64 {%r1, %r2}, 0x700000008;", "%r2", 7},
    {"cvt.s64.s32 %d2, -1;", "%d2", ~uint64_t{0}},
    {"cvt.u64.u32 %d2, 0xFFFFFFFF;", "%d2", 0xFFFFFFFF},
    {"mov.u64 %d2, 0x1FFFFFFFF; cvt.s64.s32 %d3, %d2;", "%d3", ~uint64_t{0}},
};

// 1 is 3F800000, 2^-24 33800000; 7FFFFFFF is the NaN of f32.
constexpr Case kFloat[] = {
    {"add.rn.f32 %f1, 0f3F800000, 0f33800000;", "%f1", 0x3F800000},
    {"add.rp.f32 %f1, 0f3F800000, 0f33800000;", "%f1", 0x3F800001},
    {"sub.rn.f32 %f1, 0f7F800000, 0f7F800000;", "%f1", 0x7FFFFFFF},
    {"add.rz.f32 %f1, 0f3F800000, 0fB3000000;", "%f1", 0x3F7FFFFF},
    {"fma.rn.f32 %f1, 0f3F800001, 0f3F800001, 0fBF800002;", "%f1", 0x28800000},
    {"fma.rm.f32 %f1, 0f3F800001, 0f3F800001, 0f00000000;", "%f1", 0x3F800002},
    {"fma.rp.f32 %f1, 0f3F800001, 0f3F800001, 0f00000000;", "%f1", 0x3F800003},
    {"mul.rn.f32 %f1, 0f00800000, 0f3F000000;", "%f1", 0x00400000},
    {"mul.rn.ftz.f32 %f1, 0f00800000, 0f3F000000;", "%f1", 0},
    {"ex2.approx.ftz.f32 %f1, 0f40400000;", "%f1", 0x41000000},
    {"ex2.approx.ftz.f32 %f1, 0fC3000000;", "%f1", 0},
    {"ex2.approx.f32 %f1, 0fC3000000;", "%f1", 0x00200000},
    {"rcp.approx.ftz.f32 %f1, 0f80000001;", "%f1", 0xFF800000},
    {"rcp.rn.f32 %f1, 0f40400000;", "%f1", 0x3EAAAAAB},
    {"rcp.approx.ftz.f64 %g1, 0d4008000000000000;", "%g1", 0x3FD5555500000000},
    {"sqrt.rn.f32 %f1, 0f40000000;", "%f1", 0x3FB504F3},
    {"div.rn.f32 %f1, 0f3F800000, 0f40400000;", "%f1", 0x3EAAAAAB},
    {"div.approx.f32 %f1, 0f3F800000, 0f40400000;", "%f1", 0x3EAAAAAB},
    {"div.approx.f32 %f1, 0fC0000000, 0f7F000000;", "%f1", 0x80000000},  // by 2^127: nothing
    {"div.approx.f32 %f1, 0f7F800000, 0f7F000000;", "%f1", 0x7FFFFFFF},
    {"div.approx.f32 %f1, 0f3F800000, 0f7F800000;", "%f1", 0x00000000},
    {"max.f32 %f1, 0f7FC00000, 0fBF800000;", "%f1", 0xBF800000},
    {"min.f32 %f1, 0f00000000, 0f80000000;", "%f1", 0x80000000},
    {"copysign.f32 %f1, 0f80000000, 0f3F800000;", "%f1", 0xBF800000},
    {"neg.f32 %f1, 0f00000000;", "%f1", 0x80000000},
    {"cvt.sat.f32.f32 %f1, 0f7FC00000;", "%f1", 0},
    {"cvt.sat.f32.f32 %f1, 0f40000000;", "%f1", 0x3F800000},
    {"cvt.rzi.f32.f32 %f1, 0fBFC00000;", "%f1", 0xBF800000},
    {"cvt.rni.s32.f64 %r1, 0d4004000000000000;", "%r1", 2},
    {"cvt.rzi.s32.f32 %r1, 0f7FC00000;", "%r1", 0},
    {"cvt.rzi.s32.f32 %r1, 0f4F800000;", "%r1", 0x7FFFFFFF},
    {"cvt.rn.f32.s32 %f1, 16777217;", "%f1", 0x4B800000},
    {"cvt.rn.f32.f64 %f1, 0d3FF0000010000000;", "%f1", 0x3F800000},
    {"cvt.rn.bf16.f32 %h1, 0f3F818000;", "%h1", 0x3F82},
    {"cvt.rn.bf16.f32 %h1, 0f3F808000;", "%h1", 0x3F80},
    {"cvt.rn.bf16x2.f32 %r1, 0f3F800000, 0f40000000;", "%r1", 0x3F804000},
    {"mov.u32 %r2, 0x3F8041E0; mov.u32 %r3, 0x418041C0; mov.u32 %r4, 0x3C003F80; fma.rn.bf16x2 %r1, %r2, %r3, %r4;",
     "%r1", 0x41804428},  // 16 + 2^-7: below half a step; 28 * 24 + 1
    {"mov.u32 %r2, 0x3F803F80; mov.u32 %r3, 0x43003F81; mov.u32 %r4, 0x3F003B80; fma.rn.bf16x2 %r1, %r2, %r3, %r4;",
     "%r1", 0x43003F82},  // 128.5 is half way to 129: to even; so is 1 + 2^-7 + 2^-8
    {"mov.u32 %r2, 0x3F803F80; mov.u32 %r3, 0x43003F81; mov.u32 %r4, 0x3F010001; fma.rn.bf16x2 %r1, %r2, %r3, %r4;",
     "%r1", 0x43013F81},
    {"mov.u32 %r2, 0x7FC08000; mov.u32 %r3, 0x3F800000; min.NaN.bf16x2 %r1, %r2, %r3;", "%r1", 0x7FFF8000},
    {"mov.u32 %r2, 0x7FC04000; mov.u32 %r3, 0xBF803F80; max.bf16x2 %r1, %r2, %r3;", "%r1", 0xBF804000},
    {"mov.u16 %h2, 0x1280; cvt.s16.s8 %h1, %h2;", "%h1", 0xFF80},
    {"mov.u16 %h2, 0x1280; cvt.u16.u8 %h1, %h2;", "%h1", 0x80},
    {"setp.lt.f32 %p1, 0f7FC00000, 0f00000000;", "%p1", 0},
    {"setp.ltu.f32 %p1, 0f7FC00000, 0f00000000;", "%p1", 1},
    {"setp.ne.f32 %p1, 0f7FC00000, 0f00000000;", "%p1", 0},
    {"setp.neu.f32 %p1, 0f7FC00000, 0f00000000;", "%p1", 1},
    {"setp.equ.f32 %p1, 0f7FC00000, 0f00000000;", "%p1", 1},
    {"setp.nan.f32 %p1, 0f7FC00000, 0f00000000;", "%p1", 1},
};

constexpr Case kMemory[] = {
    {"st.shared.u32 [table+4], 0x80FF; ld.shared.s8 %r1, [table+4];", "%r1", 0xFFFFFFFF},
    {"st.shared.u32 [table+4], 0x80FF; ld.shared.u8 %h1, [table+5];", "%h1", 0x80},
    {"mov.u64 %d2, table; cvta.shared.u64 %d2, %d2; st.u32 [%d2+8], 9; ld.shared.u32 %r1, [table+8];", "%r1", 9},
    {"mov.u64 %d2, small_out; cvta.param.u64 %d2, %d2; ld.u64 %d3, [%d2]; sub.s64 %d3, %d3, %d0;", "%d3", 0},
    {".local .align 8 .b8 own[8]; st.local.u32 [own], %r0; ld.local.u32 %r1, [own]; sub.s32 %r1, %r1, %r0;", "%r1", 0},
    {"st.shared.v2.f32 [table], {0f3F800000, 0f40000000}; ld.shared.v2.f32 {%f1, %f2}, [table];", "%f2", 0x40000000},
    {"st.shared.u64 [table], 0; bar.sync 0; atom.shared.add.u64 %d2, [table], 2; ld.shared.u64 %d3, [table];", "%d3",
     64},
};

INSTANTIATE_TEST_SUITE_P(Float, Instructions, testing::ValuesIn(kFloat));
INSTANTIATE_TEST_SUITE_P(Memory, Instructions, testing::ValuesIn(kMemory));
INSTANTIATE_TEST_SUITE_P(Integer, Instructions, testing::ValuesIn(kInteger));

}  // namespace
}  // namespace ptx::test
