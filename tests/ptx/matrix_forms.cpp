// ldmatrix and mma, after the figures of "Warp Level Matrix Multiply-Accumulate Instructions" of the PTX ISA: which
// element of a matrix lies where in which lane. Nothing here is shared with the emulator's model of the same.
#include "ptx/forms.h"

namespace ptx {
namespace {

/// Lanes 8 m to 8 m + 7 say where the eight rows of matrix m lie, 16 bytes each. Lane l gets of each matrix the
/// elements (l / 4, 2 (l % 4)) and the one to the right of it; transposed, those of the transposed matrix.
template <bool kTransposed>
void load_matrices(Warp& warp, const Instruction& i, Lanes) {
  uint16_t element[4][8][8];
  for (unsigned lane = 0; lane < kWarp; ++lane)
    std::memcpy(element[lane / 8][lane % 8], warp.read(i.address[0], sizeof(element[0][0]), lane),
                sizeof(element[0][0]));
  for (unsigned lane = 0; lane < kWarp; ++lane)
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned row = lane / 4, column = 2 * (lane % 4);
      const uint32_t low = kTransposed ? element[m][column][row] : element[m][row][column];
      const uint32_t high = kTransposed ? element[m][column + 1][row] : element[m][row][column + 1];
      warp.values<uint32_t>(i.to[m])[lane] = high << 16 | low;
    }
}

double bf16_at(Warp& warp, Slot slot, unsigned lane, unsigned half) {
  const uint32_t bits = warp.values<uint32_t>(slot)[lane] >> (16 * half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// d [16, 8] = a [16, 16] b [16, 8] + c. Products of bf16 are exact in double, and so, but for huge differences of
/// magnitude, is their sum, which is rounded once: the ISA leaves order and precision of the sum open.
void multiply_add(Warp& warp, const Instruction& i, Lanes) {
  double a[16][16], b[16][8];
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const unsigned group = lane / 4, in_group = lane % 4;
    for (unsigned k = 0; k < 8; ++k) {
      const unsigned row = k < 2 || (k >= 4 && k < 6) ? group : group + 8;
      const unsigned column = in_group * 2 + (k & 1) + (k >= 4 ? 8 : 0);
      a[row][column] = bf16_at(warp, i.from[k / 2], lane, k % 2);
    }
    for (unsigned k = 0; k < 4; ++k)
      b[in_group * 2 + (k & 1) + (k >= 2 ? 8 : 0)][group] = bf16_at(warp, i.from[4 + k / 2], lane, k % 2);
  }
  for (unsigned lane = 0; lane < kWarp; ++lane)
    for (unsigned k = 0; k < 4; ++k) {
      const unsigned row = lane / 4 + (k < 2 ? 0 : 8), column = lane % 4 * 2 + (k & 1);
      double sum = warp.values<float>(i.from[6 + k])[lane];
      for (unsigned inner = 0; inner < 16; ++inner) sum += a[row][inner] * b[inner][column];
      warp.values<float>(i.to[k])[lane] = static_cast<float>(sum);
    }
}

}  // namespace

void add_matrix_forms(Forms& forms) {
  const std::vector<Type> four_words(4, bits_of<uint32_t>());
  Form load{&load_matrices<false>, four_words, {}, {Space::Shared}, Control::Whole};
  load.access = 16;
  forms["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] = load;
  load.execute = &load_matrices<true>;
  forms["ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"] = load;

  Form product{&multiply_add, std::vector<Type>(4, type_of<float>()), std::vector<Type>(6, bits_of<uint32_t>())};
  product.from.insert(product.from.end(), 4, type_of<float>());
  product.control = Control::Whole;
  forms["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"] = product;
}

}  // namespace ptx
