// Rows in four bits, as vLLM's own kernels store them. Made by tests/reference/make_served_row_goldens.py.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "ops/rotation_signs.h"
#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

const std::pair<const char*, CacheFormat> kFormats[] = {{"int4_per_token_head", CacheFormat::RotatedInt4},
                                                        {"turboquant_values", CacheFormat::Uint4}};

std::vector<double> numbers(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (!info) fail("the golden has no tensor " + name);
  const Tensor t = file.tensor(*info);
  std::vector<float> x(static_cast<size_t>(t.elements()));
  convert_to_float(t.dtype, t.data, x.data(), x.size());
  return {x.begin(), x.end()};
}

TEST(ServedRows, AreThoseOfTheServersKernels) {
  const SafetensorsFile golden(std::string(KVCAL_SOURCE_DIR) + "/tests/parity/golden/served_rows.safetensors");
  for (const auto& [name, format] : kFormats)
    for (const int64_t width : {24, 64, 80, 128, 512})
      for (const Precision p : {Precision::F32, Precision::BF16}) {
        const std::string suffix = "." + std::to_string(width);
        const std::string expected = name + suffix + (p == Precision::F32 ? ".f32" : ".bf16");
        SCOPED_TRACE(expected);
        const auto op = backend(p);
        const std::vector<double> from = numbers(golden, "x" + suffix);
        const Values x =
            values({static_cast<int64_t>(from.size()) / 2 / width, 2, width}, op->activation_dtype(), from);
        EXPECT_EQ(read(op->round_cache(x, {format, {}, {}})), numbers(golden, expected));
      }
}

TEST(ServedRows, StayWithinHalfAStepOfARow) {
  constexpr int64_t kTokens = 37, kHeads = 3, kDim = 96;
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const Values x = random_values({kTokens, kHeads, kDim}, op->activation_dtype(), 7, Fill::Outliers);
    const std::vector<double> y = read(op->round_cache(x, {CacheFormat::Uint4, {}, {}}));
    for (size_t row = 0; row < y.size(); row += kDim) {
      const auto [least, most] = std::minmax_element(x.real.begin() + static_cast<std::ptrdiff_t>(row),
                                                     x.real.begin() + static_cast<std::ptrdiff_t>(row + kDim));
      const double largest = std::max(std::fabs(*least), std::fabs(*most));
      for (size_t i = row; i < row + kDim; ++i)  // and the roundings of f16 and bf16
        ASSERT_NEAR(y[i], x.real[i], (*most - *least) / 30 + largest / 200) << "element " << i;
    }
  }
}

TEST(ServedRows, AreMadeOfAnyNumbers) {
  const auto op = backend(Precision::F32);
  const float infinity = std::numeric_limits<float>::infinity();
  const Values x =
      values({1, 4, 2}, DType::F32, {infinity, 1, -infinity, infinity, std::nan(""), std::nan(""), 3e38, -3e38});
  for (const CacheFormat format : {CacheFormat::Uint4, CacheFormat::RotatedInt4})
    EXPECT_EQ(read(op->round_cache(x, {format, {}, {}})).size(), 8U);
}

TEST(ServedRows, OfNoWidthOrCount) {
  const auto op = backend(Precision::BF16);
  for (const CacheFormat format : {CacheFormat::Uint4, CacheFormat::RotatedInt4})
    for (const Shape& shape : {Shape{0, 2, 16}, Shape{3, 2, 0}})
      EXPECT_TRUE(read(op->round_cache(values(shape, DType::BF16, {}), {format, {}, {}})).empty());
}

TEST(ServedRows, RefuseScalesAndRowsThatNoServerTurns) {
  const auto op = backend(Precision::F32);
  const Tensor one = op->upload(values({1}, DType::F32, {1}));
  const auto error_of = [&](int64_t width, const CacheRounding& rounding) -> std::string {
    try {
      op->round_cache(random_values({1, 1, width}, DType::F32, 1), rounding);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error_of(16, {CacheFormat::Uint4, one, one}).find("scales of its rows alone"), std::string::npos);
  EXPECT_NE(error_of(1024, {CacheFormat::RotatedInt4, {}, {}}).find("at most 512"), std::string::npos);
  EXPECT_EQ(error_of(1536 + 256, {CacheFormat::RotatedInt4, {}, {}}), "");
}

}  // namespace
}  // namespace kvcal::test
