// Every number of bfloat16 through every format of a cache, to the bit as the types of ml_dtypes store it. Made by
// tests/reference/cache_formats.py.
#include <bit>
#include <cmath>

#include "base/json.h"
#include "base/sha256.h"
#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

const std::pair<const char*, CacheFormat> kFormats[] = {{"e4m3", CacheFormat::E4m3},
                                                        {"e4m3fnuz", CacheFormat::E4m3Fnuz},
                                                        {"e5m2", CacheFormat::E5m2},
                                                        {"int8", CacheFormat::Int8},
                                                        {"nvfp4", CacheFormat::Nvfp4}};

Json golden() { return read_json_file(std::string(KVCAL_SOURCE_DIR) + "/tests/parity/golden/cache_formats.json"); }

std::vector<double> numbers_of_bf16(bool finite) {
  std::vector<double> all;
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const auto x = std::bit_cast<float>(code << 16);
    if (!finite || std::isfinite(x)) all.push_back(x);
  }
  return all;
}

/// Blocks in which 6 is the largest number, so that their scale is 1: all others up to there, zeros behind.
std::vector<double> blocks_below_six() {
  std::vector<double> blocks;
  for (const double x : numbers_of_bf16(true)) {
    if (std::fabs(x) > 6) continue;
    if (blocks.size() % 16 == 0) blocks.push_back(6);
    blocks.push_back(x);
  }
  blocks.resize((blocks.size() + 15) / 16 * 16);
  return blocks;
}

float real_of(float x) { return x; }
float real_of(bf16 x) { return to_float(x); }

template <class T, class Bits>
std::string hash_of_bits(const Storage& y) {
  std::string bytes;
  for (int64_t i = 0; i < y.tensor().elements(); ++i) {
    const T value = y.tensor().as<T>()[i];
    const float real = real_of(value);
    const Bits bits = std::isnan(real) || real == 0.0f ? Bits{0} : std::bit_cast<Bits>(value);
    bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
  return sha256_hex(bytes);
}

void expect_digests(const std::vector<double>& x, CacheFormat format, float scale, const Json& expected) {
  const auto n = static_cast<int64_t>(x.size());
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const Tensor s = op->upload(values({1}, DType::F32, {scale}));
    const Storage y = on_host(op->round_cache(values({n / 16, 1, 16}, op->activation_dtype(), x), {format, s, s}));
    if (p == Precision::F32)
      EXPECT_EQ((hash_of_bits<float, uint32_t>(y)), expected.at("f32")) << "scale " << scale;
    else
      EXPECT_EQ((hash_of_bits<bf16, uint16_t>(y)), expected.at("bf16")) << "scale " << scale;
  }
}

TEST(CacheFormats, StoreEveryNumberOfBf16AsMlDtypesDoes) {
  const Json all = golden().at("formats");
  for (const auto& [name, format] : kFormats) {
    SCOPED_TRACE(name);
    const std::vector<double> x = numbers_of_bf16(format == CacheFormat::Nvfp4);
    ASSERT_EQ(all.at(name).size(), 3U);
    for (const Json& expected : all.at(name)) expect_digests(x, format, expected.at("scale").get<float>(), expected);
  }
}

TEST(CacheFormats, StoreBlocksOfScaleOneAsMlDtypesDoes) {
  expect_digests(blocks_below_six(), CacheFormat::Nvfp4, 1.0f, golden().at("nvfp4_blocks_of_scale_1"));
}

}  // namespace
}  // namespace kvcal::test
