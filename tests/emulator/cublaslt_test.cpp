// The products of the CUDA backend, against a stand-in for the library that is strict, and has algorithms that must not
// be taken.
#include "emulator/cublaslt.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "base/error.h"
#include "emulator/streams.h"
#include "kernels/cublaslt_gemm.h"
#include "kernels/runtime/memory.h"

namespace kvcal::cuda {
namespace {

/// A tensor of the device with its memory; memory of the emulated device is the host's.
struct Matrix {
  DeviceBytes memory;
  Tensor tensor;
};

Matrix matrix(const Shape& shape, DType dtype) {
  Tensor t{nullptr, shape, dtype, Device::Cuda};
  Matrix m{allocate_bytes(t.bytes()), t};
  m.tensor.data = m.memory.get();
  return m;
}

/// Small whole numbers: their products and sums are exact in f32, in any order.
Matrix whole_numbers(const Shape& shape, DType dtype, unsigned seed) {
  Matrix m = matrix(shape, dtype);
  std::minstd_rand random(seed);
  for (int64_t i = 0; i < m.tensor.elements(); ++i) {
    const auto x = static_cast<float>(random() % 7) - 3.0f;
    if (dtype == DType::BF16)
      static_cast<bf16*>(m.tensor.data)[i] = to_bf16(x);
    else
      static_cast<float*>(m.tensor.data)[i] = x;
  }
  return m;
}

float at(const Tensor& t, int64_t i) {
  return t.dtype == DType::BF16 ? to_float(static_cast<const bf16*>(t.data)[i]) : static_cast<const float*>(t.data)[i];
}

/// The bits that y must have: one rounding of an exact sum.
void expect_product(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  for (int64_t r = 0; r < y.dim(0); ++r)
    for (int64_t o = 0; o < y.dim(1); ++o) {
      float sum = 0.0f;
      for (int64_t i = 0; i < x.dim(1); ++i) sum += at(x, r * x.dim(1) + i) * at(w, o * x.dim(1) + i);
      if (bias) sum += at(bias, o);
      ASSERT_EQ(at(y, r * y.dim(1) + o), y.dtype == DType::BF16 ? round_to_bf16(sum) : sum) << r << ", " << o;
    }
}

std::map<int, int64_t> products_of(const std::function<void()>& work) {
  const std::map<int, int64_t> before = emulator::products();
  work();
  std::map<int, int64_t> ran;
  for (const auto& [id, n] : emulator::products())
    if (const int64_t more = n - (before.contains(id) ? before.at(id) : 0)) ran[id] = more;
  return ran;
}

class CublasLt : public testing::Test {
 protected:
  Stream stream_ = make_stream();
  CublasLtGemm gemm_;

  void multiply(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
    gemm_.multiply(x, w, bias, y, stream_.get());
    emulator::synchronize_all();
  }

  std::string notes() const {
    std::string text;
    for (const std::string& note : gemm_.notes()) text += note + '\n';
    return text;
  }
};

TEST_F(CublasLt, TakesTheFastestOfThoseWithTheBitsOfTheFirst) {
  const Matrix x = whole_numbers({100, 64}, DType::BF16, 1), w = whole_numbers({48, 64}, DType::BF16, 2),
               y = matrix({100, 48}, DType::BF16);
  const auto first = products_of([&] { multiply(x.tensor, w.tensor, {}, y.tensor); });
  EXPECT_FALSE(first.contains(4)) << "sums in parts have been tried";
  expect_product(x.tensor, w.tensor, {}, y.tensor);
  EXPECT_EQ(products_of([&] { multiply(x.tensor, w.tensor, {}, y.tensor); }), (std::map<int, int64_t>{{2, 1}}));
  EXPECT_NE(notes().find("product BF16 [64 -> 48] -> BF16, up to 128 rows: algorithm 2, "), std::string::npos)
      << notes();
  EXPECT_NE(notes().find("3.000 ms for 100 rows, the fastest of 2 with equal bits of 3"), std::string::npos) << notes();
}

// For few rows the library proposes first what has other bits.
TEST_F(CublasLt, GivesARowTheSameBitsWhateverIsWithIt) {
  const Matrix x = whole_numbers({40, 64}, DType::BF16, 1), w = whole_numbers({48, 64}, DType::BF16, 2),
               y = matrix({40, 48}, DType::BF16), alone = matrix({40, 48}, DType::BF16);
  multiply(x.tensor, w.tensor, {}, y.tensor);
  for (int64_t r = 0; r < 40; ++r) multiply(x.tensor.rows(r, 1), w.tensor, {}, alone.tensor.rows(r, 1));
  EXPECT_EQ(std::memcmp(y.tensor.data, alone.tensor.data, y.tensor.bytes()), 0);
}

TEST_F(CublasLt, ChoosesOncePerShapeAndPowerOfTwoOfRows) {
  const Matrix x = whole_numbers({300, 64}, DType::BF16, 1), w = whole_numbers({48, 64}, DType::BF16, 2),
               y = matrix({300, 48}, DType::BF16);
  const auto with_rows = [&](int64_t n) {
    return products_of([&] { multiply(x.tensor.rows(0, n), w.tensor, {}, y.tensor.rows(0, n)); });
  };
  EXPECT_GT(with_rows(200).size(), 1U);
  EXPECT_EQ(with_rows(129), (std::map<int, int64_t>{{2, 1}}));
  EXPECT_EQ(with_rows(256), (std::map<int, int64_t>{{2, 1}}));
  EXPECT_GT(with_rows(128).size(), 1U);
}

// Sums leave the library in f32 then, as many rows at a time as there is room for.
TEST_F(CublasLt, AddsABiasThatIsNoBf16InPieces) {
  constexpr int64_t kOut = 48, kRowsOfPiece = 30;
  const Matrix x = whole_numbers({100, 64}, DType::BF16, 1), w = whole_numbers({kOut, 64}, DType::BF16, 2),
               bias = whole_numbers({kOut}, DType::F32, 3), y = matrix({100, kOut}, DType::BF16);
  for (int64_t i = 0; i < kOut; ++i) static_cast<float*>(bias.tensor.data)[i] += 0x1p-10f;
  CublasLtGemm pieces(kRowsOfPiece * kOut * sizeof(float));
  const auto multiply = [&] {
    pieces.multiply(x.tensor, w.tensor, bias.tensor, y.tensor, stream_.get());
    emulator::synchronize_all();
  };
  multiply();
  expect_product(x.tensor, w.tensor, bias.tensor, y.tensor);
  EXPECT_EQ(products_of(multiply), (std::map<int, int64_t>{{2, 4}}));
}

// Whatever the library proposes, and however large the batch that waits.
TEST_F(CublasLt, SpendsLittleOnChoosing) {
  const int64_t rows = 20000;
  const Matrix x = whole_numbers({rows, 16}, DType::BF16, 1);
  const auto chosen_with = [&](int variants, double slowness, int64_t out) {
    const Matrix w = whole_numbers({out, 16}, DType::BF16, 2), z = matrix({rows, out}, DType::BF16);
    emulator::set_library(variants, slowness);
    const int64_t before = emulator::product_rows();
    const auto ran = products_of([&] { multiply(x.tensor, w.tensor, {}, z.tensor); });
    emulator::set_library(1, 1.0);
    expect_product(x.tensor, w.tensor, {}, z.tensor);
    int64_t n = 0;
    for (const auto& [id, times] : ran) n += times;
    EXPECT_EQ(emulator::product_rows() - before, rows + (n - 1) * 8192) << "the call itself, and the first rows";
    return n - 1;
  };
  EXPECT_EQ(chosen_with(1, 1.0, 8), 2 * 4 + 1);   // 1 and 2, timed; 3, of other bits
  EXPECT_EQ(chosen_with(5, 0.1, 16), 5 * 4 + 3);  // eight of twelve
  EXPECT_EQ(chosen_with(1, 20.0, 24), 4);         // 80 ms a product: the reference alone
  EXPECT_NE(notes().find("[16 -> 24] -> BF16, more than 4096 rows: algorithm 1, "), std::string::npos) << notes();
}

TEST_F(CublasLt, AddsABf16BiasBeforeTheRounding) {
  const Matrix x = whole_numbers({33, 64}, DType::BF16, 1), w = whole_numbers({16, 64}, DType::BF16, 2),
               bias = matrix({16}, DType::BF16), y = matrix({33, 16}, DType::BF16);
  for (int64_t i = 0; i < 16; ++i) static_cast<bf16*>(bias.tensor.data)[i] = to_bf16(0.40625f * static_cast<float>(i));
  multiply(x.tensor, w.tensor, bias.tensor, y.tensor);
  expect_product(x.tensor, w.tensor, bias.tensor, y.tensor);
  EXPECT_NE(notes().find("+ bias -> BF16"), std::string::npos) << notes();
}

// The library would round such a bias first; the sums are taken in f32, over several strips of rows.
TEST_F(CublasLt, AddsAnF32BiasBeforeTheOneRounding) {
  const int64_t rows = 17, out = 1 << 18;
  const Matrix x = whole_numbers({rows, 8}, DType::BF16, 1), w = whole_numbers({out, 8}, DType::BF16, 2),
               bias = matrix({out}, DType::F32), y = matrix({rows, out}, DType::BF16);
  for (int64_t i = 0; i < out; ++i)
    static_cast<float*>(bias.tensor.data)[i] = 0x1p-8f * static_cast<float>(i % 511) + 0x1p-12f;
  multiply(x.tensor, w.tensor, bias.tensor, y.tensor);
  expect_product(x.tensor, w.tensor, bias.tensor, y.tensor);
  EXPECT_NE(notes().find("+ bias -> F32"), std::string::npos) << notes();
}

TEST_F(CublasLt, MultipliesF32AndBf16IntoF32) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const Matrix x = whole_numbers({33, 32}, dtype, 1), w = whole_numbers({20, 32}, dtype, 2),
                 y = matrix({33, 20}, DType::F32);
    const auto ran = products_of([&] { multiply(x.tensor, w.tensor, {}, y.tensor); });
    EXPECT_TRUE(ran.contains(2));
    expect_product(x.tensor, w.tensor, {}, y.tensor);
  }
}

TEST_F(CublasLt, LeavesWhatIsOffItsGridToTheSimpleKernel) {
  struct Extents {
    int64_t rows, in, out;
  };
  for (const auto& [rows, in, out] : {Extents{33, 63, 16}, {5, 64, 17}, {17, 12, 40}, {1, 1, 1}}) {
    const Matrix x = whole_numbers({rows, in}, DType::BF16, 1), w = whole_numbers({out, in}, DType::BF16, 2),
                 y = matrix({rows, out}, DType::BF16);
    EXPECT_TRUE(products_of([&] { multiply(x.tensor, w.tensor, {}, y.tensor); }).empty());
    expect_product(x.tensor, w.tensor, {}, y.tensor);
  }
  // Good extents, but not where a row can begin.
  const Matrix values = whole_numbers({34, 64}, DType::BF16, 1), w = whole_numbers({16, 64}, DType::BF16, 2),
               y = matrix({33, 16}, DType::BF16);
  const Tensor x{static_cast<bf16*>(values.tensor.data) + 1, {33, 64}, DType::BF16, Device::Cuda};
  EXPECT_TRUE(products_of([&] { multiply(x, w.tensor, {}, y.tensor); }).empty());
  expect_product(x, w.tensor, {}, y.tensor);
}

TEST_F(CublasLt, NamesWhatFailed) {
  const Matrix x = whole_numbers({33, 64}, DType::BF16, 1), w = whole_numbers({16, 64}, DType::BF16, 2),
               y = matrix({33, 16}, DType::BF16);
  emulator::fail_next_product();
  try {
    multiply(x.tensor, w.tensor, {}, y.tensor);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()),
              "multiplying 33 rows, BF16 [64 -> 16] -> BF16, algorithm 1, tile 0, stages 0, swizzle 0, custom 0 on "
              "device 0 (emulated GPU): cuBLASLt: the requested functionality failed (CUBLAS_STATUS_EXECUTION_FAILED)");
  }
}

}  // namespace
}  // namespace kvcal::cuda
