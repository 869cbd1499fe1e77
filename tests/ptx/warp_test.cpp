// What lanes do together, and where matrices' elements lie.
#include "ptx/small_kernel.h"

namespace ptx::test {
namespace {

TEST(Warp, LanesThatWentDifferentWaysMeetAgain) {
  const auto results = run_small(R"(
    and.b32 %r1, %r0, 1;
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra $even;
    add.s32 %r2, %r0, 100;
    bra.uni $both;
    $even:
    mov.u32 %r2, 7;
    $both:
    shfl.sync.bfly.b32 %r3|%p2, %r2, 1, 31, -1;
    st.global.u32 [%d1], %r3;)");
  EXPECT_EQ(results[4].x[0], 105U);
  EXPECT_EQ(results[5].x[0], 7U);
}

TEST(Warp, ShufflesWithinTheirSegment) {
  const auto results = run_small(R"(
    shfl.sync.idx.b32 %r1|%p1, %r0, 3, 0x1807, -1;
    shfl.sync.up.b32 %r2|%p2, %r0, 1, 0, -1;
    shfl.sync.down.b32 %r3|%p3, %r0, 1, 31, -1;
    selp.u32 %r4, 1, 0, %p3;
    st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4};)");
  EXPECT_EQ(results[20].x[0], 19U);  // lane 3 of those from 16 on
  EXPECT_EQ(results[0].x[1], 0U);
  EXPECT_EQ(results[9].x[1], 8U);
  EXPECT_EQ(results[31].x[2], 31U);
  EXPECT_EQ(results[31].x[3], 0U);
  EXPECT_EQ(results[30].x[3], 1U);
}

TEST(Warp, HalvesReduceApart) {
  const auto results = run_small(R"(
    setp.lt.u32 %p1, %r0, 16;
    selp.b32 %r1, 0xFFFF, 0xFFFF0000, %p1;
    redux.sync.max.u32 %r2, %r0, %r1;
    st.global.u32 [%d1], %r2;)");
  EXPECT_EQ(results[3].x[0], 15U);
  EXPECT_EQ(results[16].x[0], 31U);
}

TEST(Warp, BarriersLetOtherWarpsSee) {
  const auto results = run_small(R"(
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, table;
    add.s32 %r3, %r1, %r2;
    st.shared.u32 [%r3], %r0;
    bar.sync 0;
    sub.s32 %r4, 63, %r0;
    shl.b32 %r4, %r4, 2;
    add.s32 %r4, %r4, %r2;
    ld.shared.u32 %r5, [%r4];
    st.global.u32 [%d1], %r5;)",
                                 64);
  EXPECT_EQ(results[1].x[0], 62U);
  EXPECT_EQ(results[62].x[0], 1U);
}

/// Matrix m has the element 64 m + 8 row + column.
constexpr const char* kFillMatrices = R"(
    shl.b32 %r1, %r0, 4;
    mov.u32 %r2, table;
    add.s32 %r3, %r1, %r2;
    shl.b32 %r4, %r0, 3;
    mul.lo.s32 %r5, %r4, 65537;
    add.s32 %r5, %r5, 65536;
    add.s32 %r6, %r5, 131074;
    add.s32 %r7, %r6, 131074;
    add.s32 %r8, %r7, 131074;
    st.shared.v4.u32 [%r3], {%r5, %r6, %r7, %r8};
    bar.sync 0;
)";

TEST(Matrix, RowsOfFourMatrices) {
  const auto results = run_small(std::string(kFillMatrices) + R"(
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r3];
    st.global.v4.u32 [%d1], {%r10, %r11, %r12, %r13};)");
  // Lane 14: row 3, columns 4 and 5.
  for (uint32_t m = 0; m < 4; ++m) EXPECT_EQ(results[14].x[m], (64 * m + 29) << 16 | (64 * m + 28)) << m;
}

TEST(Matrix, ColumnsOfFourMatrices) {
  const auto results = run_small(std::string(kFillMatrices) + R"(
    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r3];
    st.global.v4.u32 [%d1], {%r10, %r11, %r12, %r13};)");
  // Lane 14: rows 4 and 5 of column 3.
  for (uint32_t m = 0; m < 4; ++m) EXPECT_EQ(results[14].x[m], (64 * m + 43) << 16 | (64 * m + 35)) << m;
}

/// a has a single 1 (bf16 3F80) and b a single 2 (4000): a [9, 5] times b [5, 3], so d [9, 3] grows by 2. By the
/// figures, a [9, 5] is the upper half of a1 in lane 4 * 1 + 2, b [5, 3] that of b0 in lane 4 * 3 + 2, d [9, 3] d3 in
/// lane 4 * 1 + 1.
TEST(Matrix, OneProductLandsWhereTheFiguresSay) {
  const auto results = run_small(R"(
    setp.eq.s32 %p1, %r0, 6;
    selp.b32 %r1, 0x3F800000, 0, %p1;
    setp.eq.s32 %p2, %r0, 14;
    selp.b32 %r2, 0x40000000, 0, %p2;
    mov.b32 %r3, 0;
    mov.f32 %f1, 0f3F800000;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
      {%f2, %f3, %f4, %f5}, {%r3, %r1, %r3, %r3}, {%r2, %r3}, {%f1, %f1, %f1, %f1};
    st.global.v4.f32 [%d1], {%f2, %f3, %f4, %f5};)");
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t k = 0; k < 4; ++k)
      EXPECT_EQ(results[lane].x[k], lane == 5 && k == 3 ? 0x40400000U : 0x3F800000U) << lane << ' ' << k;
}

TEST(Copy, ArrivesWithZerosAfterWhatIsValid) {
  const auto results = run_small(R"(
    st.global.v4.u32 [%d1], {1, 2, 3, 4};
    shl.b32 %r1, %r0, 4;
    mov.u32 %r2, table;
    add.s32 %r2, %r1, %r2;
    cp.async.cg.shared.global [%r2], [%d1], 16, 8;
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r2];
    st.global.v4.u32 [%d1], {%r3, %r4, %r5, %r6};)");
  EXPECT_EQ(results[31].x[1], 2U);
  EXPECT_EQ(results[31].x[2], 0U);
}

TEST(Call, PutsTheFunctionInPlace) {
  const std::string text =
      ".func (.param .b32 result) twice(.param .b32 twice_param_0) {\n.reg .b32 %r<9>;\n"
      "ld.param.u32 %r0, [twice_param_0]; shl.b32 %r1, %r0, 1; st.param.b32 [result], %r1; ret; }\n";
  const Module module(text + kernel_of(R"(
    { .param .b32 p; st.param.b32 [p], %r0; .param .b32 q;
      call.uni (q), twice, (p);
      ld.param.b32 %r1, [q]; }
    sub.s32 %r1, %r1, %r0; sub.s32 %r1, %r1, %r0;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 ld.shared.u32 %r2, [table];)"));
  const Program program = compile(module, module.entries.at("small"));
  run({module, program, {}, {32, 1, 1}, 0, std::vector<std::byte>(8)});
}

}  // namespace
}  // namespace ptx::test
