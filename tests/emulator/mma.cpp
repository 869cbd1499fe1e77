#include "emulator/mma.h"

#include <cstring>
#include <stdexcept>

#include "emulator/race.h"

namespace emulator {
namespace {

constexpr unsigned kAll = ~0u;

float element(uint32_t pair, unsigned i) {  // bf16 i of two
  const uint32_t bits = (i == 0 ? pair << 16 : pair & 0xFFFF0000u);
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

struct Operands {
  uint32_t a[4], b[2];
};

Operands operands_of(unsigned lane) {
  Operands o;
  std::memcpy(&o, published(lane), sizeof(o));
  return o;
}

}  // namespace

void ldmatrix_x4(uint32_t (&r)[4], const void* row, bool transposed) {
  if (!is_aligned(row)) throw std::logic_error("a row of a matrix at an address that is not a multiple of 16");
  race::access(row, 16, race::Access::Read, __builtin_return_address(0));
  publish(kAll, &row, sizeof(row));
  const unsigned lane = lane_index(), g = lane / 4, t = lane % 4;
  const auto value = [&](unsigned matrix, unsigned i, unsigned j) {
    const char* address;
    std::memcpy(&address, published(matrix * 8 + i), sizeof(address));
    uint16_t bits;
    std::memcpy(&bits, address + j * sizeof(bits), sizeof(bits));
    return bits;
  };
  for (unsigned m = 0; m < 4; ++m) {
    const uint32_t low = transposed ? value(m, 2 * t, g) : value(m, g, 2 * t);
    const uint32_t high = transposed ? value(m, 2 * t + 1, g) : value(m, g, 2 * t + 1);
    r[m] = low | high << 16;
  }
}

void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Operands mine;
  std::memcpy(mine.a, a, sizeof(a));
  std::memcpy(mine.b, b, sizeof(b));
  publish(kAll, &mine, sizeof(mine));
  const unsigned lane = lane_index(), g = lane / 4, t = lane % 4;
  float sum[4] = {};
  for (unsigned k = 0; k < 16; ++k) {
    const unsigned holder = k % 8 / 2, half = k / 8, which = k % 2;
    const Operands row = operands_of(g * 4 + holder);  // rows g and g + 8 of a, column k
    const float top = element(row.a[2 * half], which), bottom = element(row.a[2 * half + 1], which);
    for (unsigned j = 0; j < 2; ++j) {
      const float right = element(operands_of((2 * t + j) * 4 + holder).b[half], which);  // row k, column 2t + j of b
      sum[j] += top * right;
      sum[2 + j] += bottom * right;
    }
  }
  for (unsigned i = 0; i < 4; ++i) d[i] += sum[i];
}

}  // namespace emulator
