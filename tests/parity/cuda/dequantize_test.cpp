// Weights as checkpoints store them, decoded on the device or by the reader's threads: the bits are those that the
// processor's decoding has, for every format, code and type of scale, whatever part of a weight is loaded.
#include <filesystem>

#include "checkpoint/weight_binder.h"
#include "kernels/cuda_backend.h"
#include "kernels/cuda_ops.h"
#include "model/layers/weight_rows.h"
#include "parity/op_fixture.h"
#include "unit/checkpoint_folder.h"

namespace kvcal::test {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Ops> device(Precision precision, uint64_t slot_bytes = uint64_t{1} << 20) {
  CudaOptions options{precision, 0, true};
  options.reader = {3, 2, slot_bytes, true};
  return make_cuda_ops(options);
}

/// Bit for bit; of what is no number that it is none.
void expect_same(const Tensor& actual, const Tensor& expected, const std::string& what) {
  const Storage there = on_host(actual);
  ASSERT_EQ(there.tensor().elements(), expected.elements()) << what;
  int64_t wrong = 0, first = 0;
  for (int64_t i = expected.elements(); i-- > 0;) {
    const float e = to_float(expected.as<bf16>()[i]);
    const bool bits = actual.dtype == DType::BF16;
    const float a = bits ? to_float(there.tensor().as<bf16>()[i]) : there.tensor().as<float>()[i];
    if (std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(e) || (std::isnan(a) && std::isnan(e))) continue;
    ++wrong;
    first = i;
  }
  EXPECT_EQ(wrong, 0) << what << ": the first of them is element " << first;
}

/// What load(weights) puts on the device, and how many bytes went there.
template <class Load>
std::pair<std::vector<Linear>, uint64_t> loaded(Ops& op, const WeightBinder& weights, Load load) {
  const uint64_t before = op.reader()->bytes_copied();
  op.reader()->collect(weights.files());
  std::vector<Linear> linears = load(weights.as_stored());
  op.reader()->finish();
  return {std::move(linears), op.reader()->bytes_copied() - before};
}

std::vector<Tensor> matrices_of(const Tensor& t) {
  if (t.shape.rank() == 2) return {t};
  std::vector<Tensor> all;
  for (int64_t e = 0; e < t.dim(0); ++e) all.push_back(t.rows(e, 1).reshaped({t.dim(1), t.dim(2)}));
  return all;
}

// ---------------------------------------------------------------- every format that is read

fs::path goldens() { return fs::path(KVCAL_SOURCE_DIR) / "tests/unit/data/formats"; }

std::vector<std::string> format_cases() {
  std::vector<std::string> cases;
  for (const auto& entry : fs::directory_iterator(goldens())) cases.push_back(entry.path().filename().string());
  std::sort(cases.begin(), cases.end());
  return cases;
}

/// Those that reader threads decode, and why is in docs/cuda.md.
bool is_decoded_by_threads(const std::string& name) {
  for (const char* part :
       {"auto_round", "awq", "gptq", "ordered", "asymmetric", "int3", "int7", "smoothquant", "llama4"})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

class StoredFormat : public testing::TestWithParam<std::string> {};

TEST_P(StoredFormat, BecomesTheGoldenWeights) {
  const Checkpoint checkpoint = Checkpoint::open(goldens() / GetParam());
  const SafetensorsFile expected(goldens() / GetParam() / "expected.safetensors");
  for (const Precision precision : {Precision::BF16, Precision::F32}) {
    const auto op = device(precision);
    for (const TensorInfo& info : expected.tensors()) {
      const WeightBinder weights(checkpoint);
      const auto [linears, bytes] = loaded(*op, weights, [&](const WeightBinder& w) {
        std::vector<Linear> all;
        for (const Tensor& t : matrices_of(w(info.name, info.shape))) all.push_back(op->load_linear(t));
        return all;
      });
      const std::vector<Tensor> golden = matrices_of(expected.tensor(info));
      for (size_t i = 0; i < golden.size(); ++i)
        expect_same(cuda::weight_of(linears[i]), golden[i], info.name + " " + std::to_string(i));
      const auto decoded = static_cast<uint64_t>(info.shape.elements()) * size_of(op->activation_dtype());
      if (is_decoded_by_threads(GetParam()))
        EXPECT_EQ(bytes, decoded);
      else
        EXPECT_LT(bytes, decoded) << "it went to the device as values";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, StoredFormat, testing::ValuesIn(format_cases()),
                         [](const auto& format) { return format.param; });

// ---------------------------------------------------------------- every code and scale

struct Coded {
  const char* what;
  std::string suffix;  // of the codes' tensor
  DType dtype;
  Shape codes;
  std::string scales_suffix;
  DType scale_type;
  Shape scales;
  Shape shape;  // of the weight
};

std::string bytes_of_scales(DType type, int64_t n) {
  // Of every size, 0, negative, subnormal; then results overflow, vanish, and round in both directions.
  constexpr float kScales[] = {1.0f,          0.0123f, -3.7f,      0.0f,     0x1p-126f,
                               0x1.234p-130f, 1e30f,   0x1.ffp-3f, 65504.0f, 1e-7f};
  std::string bytes;
  for (int64_t i = 0; i < n; ++i) {
    const float x = kScales[i % 10];
    if (type == DType::F32) {
      bytes.append(reinterpret_cast<const char*>(&x), 4);
    } else if (type == DType::BF16) {
      const bf16 b = to_bf16(x);
      bytes.append(reinterpret_cast<const char*>(&b), 2);
    } else if (type == DType::F16) {
      constexpr uint16_t kHalves[] = {0x3C00, 0x0001, 0x83FF, 0x7BFF, 0x0000, 0x8000, 0x1234, 0xC321};
      bytes.append(reinterpret_cast<const char*>(&kHalves[i % 8]), 2);
    } else if (type == DType::F8E4M3) {
      const auto code = static_cast<uint8_t>(i * 41);
      bytes.push_back(static_cast<char>((code & 0x7F) == 0x7F ? code - 1 : code));
    } else {
      constexpr uint8_t kExponents[] = {127, 0, 1, 2, 254, 100, 140, 126};
      bytes.push_back(static_cast<char>(kExponents[i % 8]));
    }
  }
  return bytes;
}

/// All codes in every row, in another order in each.
std::string bytes_of_codes(const Shape& shape, DType dtype) {
  const int64_t bytes = shape.elements() * static_cast<int64_t>(size_of(dtype)), row = bytes / shape[0];
  std::string codes;
  for (int64_t i = 0; i < bytes; ++i) codes.push_back(static_cast<char>(i % row * 37 + i / row * 11));
  return codes;
}

class AllCodes : public testing::TestWithParam<Coded> {};

TEST_P(AllCodes, AreWhatTheProcessorMakesOfThem) {
  const Coded& c = GetParam();
  const TempFolder folder;
  folder.write("config.json", R"({"quantization_config": {}})");
  SafetensorsWriter writer(folder / "model.safetensors", Existing::Replace);
  const std::string codes = bytes_of_codes(c.codes, c.dtype),
                    scales = bytes_of_scales(c.scale_type, c.scales.elements());
  std::map<std::string, std::string> contents;  // in the order in which they are written
  const auto declare = [&](const std::string& name, DType dtype, const Shape& shape, const std::string& bytes) {
    writer.declare(name, dtype, shape);
    contents[name] = bytes;
  };
  declare("up.weight" + c.suffix, c.dtype, c.codes, codes);
  declare("up.weight" + c.scales_suffix, c.scale_type, c.scales, scales);
  if (c.scale_type == DType::F8E4M3)  // NVFP4 has a global one, too
    declare(c.suffix.empty() ? "up.weight_scale_2" : "up.weight_global_scale", DType::F32, {1},
            bytes_of_scales(DType::F32, 2).substr(4));
  for (const auto& [name, bytes] : contents) writer.write(name, std::as_bytes(std::span(bytes)));
  writer.commit();
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const WeightBinder weights(checkpoint);
  const Tensor expected = weights("up.weight", c.shape);
  for (const Precision precision : {Precision::BF16, Precision::F32}) {
    const auto op = device(precision, uint64_t{1} << 16);
    const auto [linears, bytes] = loaded(*op, weights, [&](const WeightBinder& w) {
      return std::vector<Linear>{op->load_linear(w("up.weight", c.shape))};
    });
    expect_same(cuda::weight_of(linears[0]), expected, c.what);
    const uint64_t once = codes.size() + scales.size();
    EXPECT_GE(bytes, once);  // scales of a rectangle that is read in two parts go twice
    EXPECT_LE(bytes, once + scales.size());
  }
}

const Coded kCoded[] = {
    {"fp8_block", "", DType::F8E4M3, {300, 515}, "_scale_inv", DType::F32, {3, 5}, {300, 515}},
    {"fp8_block_whole_vectors", "", DType::F8E4M3, {257, 512}, "_scale_inv", DType::BF16, {3, 4}, {257, 512}},
    {"fp8_tensor", "", DType::F8E4M3, {9, 272}, "_scale", DType::F32, {1}, {9, 272}},
    {"fp8_channel", "", DType::F8E4M3, {21, 259}, "_scale", DType::F32, {21, 1}, {21, 259}},
    {"fp8_channel_f16", "", DType::F8E4M3, {21, 512}, "_scale", DType::F16, {21}, {21, 512}},
    {"fp8_groups_of_five", "", DType::F8E4M3, {11, 260}, "_scale", DType::BF16, {11, 52}, {11, 260}},
    {"fp8_groups_of_eight", "", DType::F8E4M3, {11, 256}, "_scale", DType::F32, {11, 32}, {11, 256}},
    {"fp8_e5m2", "", DType::F8E5M2, {21, 512}, "_scale", DType::F32, {21, 1}, {21, 512}},
    {"fp8_e5m2_odd", "", DType::F8E5M2, {5, 261}, "_scale", DType::F32, {5, 1}, {5, 261}},
    {"mxfp8", "", DType::F8E4M3, {10, 256}, "_scale", DType::U8, {10, 8}, {10, 256}},
    {"int8", "", DType::I8, {21, 512}, "_scale", DType::F32, {21, 1}, {21, 512}},
    {"int8_odd", "", DType::I8, {21, 261}, "_scale", DType::BF16, {21, 1}, {21, 261}},
    {"mxfp4", "", DType::U8, {13, 272}, "_scale", DType::U8, {13, 17}, {13, 544}},
    {"mxfp4_packed", "_packed", DType::U8, {8, 256}, "_scale", DType::U8, {8, 16}, {8, 512}},
    {"nvfp4_modelopt", "", DType::U8, {17, 264}, "_scale", DType::F8E4M3, {17, 33}, {17, 528}},
    {"nvfp4_divided", "_packed", DType::U8, {16, 256}, "_scale", DType::F8E4M3, {16, 32}, {16, 512}},
    {"int4", "_packed", DType::I32, {10, 64}, "_scale", DType::F16, {10, 16}, {10, 512}},
    {"int4_odd", "_packed", DType::I32, {7, 65}, "_scale", DType::BF16, {7, 47}, {7, 517}},
    {"int4_channel", "_packed", DType::I32, {9, 65}, "_scale", DType::BF16, {9, 1}, {9, 515}},
};
INSTANTIATE_TEST_SUITE_P(Of, AllCodes, testing::ValuesIn(kCoded), [](const auto& c) { return c.param.what; });

// ---------------------------------------------------------------- parts

/// FP8 in blocks, experts [3, 200, 192].
class Parts : public testing::Test {
 protected:
  Parts() {
    folder_.write("config.json", R"({"quantization_config": {}})");
    SafetensorsWriter writer(folder_ / "model.safetensors", Existing::Replace);
    const std::string codes = bytes_of_codes({600, 192}, DType::F8E4M3), scales = bytes_of_scales(DType::F32, 12);
    writer.declare("up", DType::F8E4M3, {3, 200, 192});
    writer.declare("up_scale_inv", DType::F32, {3, 2, 2});
    writer.write("up", std::as_bytes(std::span(codes)));
    writer.write("up_scale_inv", std::as_bytes(std::span(scales)));
    writer.commit();
    checkpoint_.emplace(Checkpoint::open(folder_.path()));
    weights_.emplace(*checkpoint_);
  }

  template <class Take>
  void expect_alike(const char* what, Take take) {
    const Storage expected = take((*weights_)("up", {3, 200, 192}));
    const auto op = device(Precision::BF16, uint64_t{1} << 16);
    Storage stored;
    const auto [linears, bytes] = loaded(*op, *weights_, [&](const WeightBinder& w) {
      stored = take(w("up", {3, 200, 192}));
      EXPECT_EQ(stored.tensor().device, Device::Stored) << what << " was decoded on the spot";
      return std::vector<Linear>{op->load_linear(stored.tensor())};
    });
    expect_same(cuda::weight_of(linears[0]), expected.tensor(), what);
    if (stored.tensor().device == Device::Stored)
      expect_same(decoded(stored.tensor()).tensor(), expected.tensor(), what);
  }

  TempFolder folder_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<WeightBinder> weights_;
};

Tensor expert(const Tensor& all, int64_t e) { return all.rows(e, 1).reshaped({200, 192}); }

TEST_F(Parts, RowsOfGroups) {
  expect_alike("every second row", [](const Tensor& all) {
    return select_rows(expert(all, 1), RowsOfGroups{100, 2, 1, 1});
  });
  expect_alike("thirteen of twenty", [](const Tensor& all) {
    return select_rows(expert(all, 2), RowsOfGroups{10, 20, 5, 13});
  });
}

TEST_F(Parts, Transposed) {
  expect_alike("an expert", [](const Tensor& all) { return transposed(expert(all, 1)); });
  expect_alike("some rows", [](const Tensor& all) { return transposed(expert(all, 1).rows(37, 100)); });
  expect_alike("selected rows", [](const Tensor& all) {
    return transposed(select_rows(expert(all, 2), RowsOfGroups{10, 20, 5, 13}).tensor().rows(26, 39));
  });
}

// Gate and up are slices of one weight, some of every second row, or of columns: each goes where it belongs.
TEST_F(Parts, BothOfOneWeight) {
  const Tensor plain = expert((*weights_)("up", {3, 200, 192}), 0);
  for (const bool interleaved : {false, true}) {
    const auto half = [&](const Tensor& one, int64_t i) {
      return interleaved ? select_rows(one, RowsOfGroups{100, 2, i, 1}) : Storage();
    };
    const auto op = device(Precision::BF16, uint64_t{1} << 16);
    const auto [linears, bytes] = loaded(*op, *weights_, [&](const WeightBinder& w) {
      const Tensor one = expert(w("up", {3, 200, 192}), 0);
      const Storage first = half(one, 0), second = half(one, 1);
      const HostLinear both[] = {{interleaved ? first.tensor() : one.rows(0, 100), {}},
                                 {interleaved ? second.tensor() : one.rows(100, 100), {}}};
      return op->load_linears(both).parts;
    });
    for (int64_t i = 0; i < 2; ++i) {
      const Storage expected = half(plain, i);
      expect_same(cuda::weight_of(linears[static_cast<size_t>(i)]),
                  interleaved ? expected.tensor() : plain.rows(i * 100, 100), interleaved ? "interleaved" : "slices");
    }
    EXPECT_LE(bytes, 200U * 192 + 6 * 16) << "the codes went to the device more than once";
  }
}

TEST_F(Parts, RowsOfATransposedOneAreColumns) {
  const Tensor plain = (*weights_)("up", {3, 200, 192});
  const Storage expected = transposed(expert(plain, 2));
  const auto op = device(Precision::BF16);
  const auto [linears, bytes] = loaded(*op, *weights_, [&](const WeightBinder& w) {
    const Storage all = transposed(expert(w("up", {3, 200, 192}), 2));
    return std::vector<Linear>{op->load_linear(all.tensor().rows(0, 96)), op->load_linear(all.tensor().rows(96, 96))};
  });
  for (int64_t i = 0; i < 2; ++i)
    expect_same(cuda::weight_of(linears[static_cast<size_t>(i)]), expected.tensor().rows(i * 96, 96), "half");
}

TEST_F(Parts, ADamagedScaleIsAnErrorThatNamesIt) {
  SafetensorsWriter writer(folder_ / "model.safetensors", Existing::Replace);
  std::string scales = bytes_of_scales(DType::F32, 12);
  const float nan = NAN;
  std::memcpy(scales.data() + 4 * 7, &nan, 4);
  writer.declare("up", DType::F8E4M3, {3, 200, 192});
  writer.declare("up_scale_inv", DType::F32, {3, 2, 2});
  const std::string codes = bytes_of_codes({600, 192}, DType::F8E4M3);
  writer.write("up", std::as_bytes(std::span(codes)));
  writer.write("up_scale_inv", std::as_bytes(std::span(scales)));
  writer.commit();
  const Checkpoint damaged = Checkpoint::open(folder_.path());
  const WeightBinder weights(damaged);
  const auto op = device(Precision::BF16);
  op->reader()->collect(weights.files());
  const Linear linear = op->load_linear(weights.as_stored()("up", {3, 200, 192}).reshaped({600, 192}));
  const std::string message = message_of([&] { op->reader()->finish(); });
  EXPECT_EQ(message, message_of([&] { weights("up", {3, 200, 192}); }));
  expect_contains(message, "scale 7 of 'up_scale_inv' is nan, expected a finite number; is the checkpoint damaged?");
}

}  // namespace
}  // namespace kvcal::test
