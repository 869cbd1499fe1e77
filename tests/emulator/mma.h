// Twins of the instructions in kernels/device/mma.cuh: every lane holds the registers that the PTX manual gives it.
#pragma once

#include <cstdint>

#include "emulator/emulator.h"

namespace emulator {

/// ldmatrix.x4: lane l gives the address of row l % 8 of 8x8 matrix l / 8; register m of lane l receives elements
/// 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix m; transposed: of column l / 4.
void ldmatrix_x4(uint32_t (&r)[4], const void* row, bool transposed);

/// mma.m16n8k16, bf16 x bf16 + f32: d += a b. With g = lane / 4 and t = lane % 4: a[0..3] hold rows g, g+8, g, g+8 and
/// columns 2t, 2t, 2t+8, 2t+8 (two each) of the 16x16 a; b[0..1] rows 2t, 2t+8 (two each) of column g of the 16x8 b;
/// d[0..3] rows g, g, g+8, g+8 and columns 2t, 2t+1, 2t, 2t+1 of the 16x8 d.
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

}  // namespace emulator
