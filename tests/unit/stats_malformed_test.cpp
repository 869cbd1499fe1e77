// Files that are well-formed containers but contradict themselves: each is a good file with one thing changed.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>

#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "stats/statistics_file.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

const Statistics& sample() {
  static const Statistics s = observe_run(small_spec(), small_plan(), mixed_value);
  return s;
}

/// A statistics file taken apart.
struct Parts {
  struct Part {
    DType dtype;
    Shape shape;
    std::string bytes;
  };
  std::map<std::string, Part> tensors;
  std::string metadata;
  Seal seal = Seal::Sha256;

  template <class T>
  T get(const std::string& name, size_t i) const {
    T value;
    std::memcpy(&value, tensors.at(name).bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  template <class T>
  void set(const std::string& name, size_t i, T value) {
    std::memcpy(tensors.at(name).bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  template <class T>
  void add(const std::string& name, size_t i, T value) {
    set<T>(name, i, static_cast<T>(get<T>(name, i) + value));
  }
  /// One sampled sum of keys.
  void sampled(const std::array<uint64_t, 9>& row) {
    tensors["c0.key.sampled"] = {DType::U64, Shape{1, 9},
                                 std::string(reinterpret_cast<const char*>(row.data()), sizeof row)};
  }
  /// The same of rows in other formats.
  void row_formats(const std::vector<uint64_t>& rows) {
    tensors["c0.key.row_formats"] = {DType::U64, Shape{static_cast<int64_t>(rows.size() / 6), 6},
                                     std::string(reinterpret_cast<const char*>(rows.data()), rows.size() * 8)};
  }
  void int4(const std::vector<uint64_t>& errors) {
    tensors["c0.key.row_formats_int4"] = {DType::U64, Shape{static_cast<int64_t>(errors.size())},
                                          std::string(reinterpret_cast<const char*>(errors.data()), errors.size() * 8)};
  }
  void replace(const std::string& from, const std::string& to) {
    const size_t at = metadata.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << metadata;
    metadata.replace(at, from.size(), to);
  }
};

Parts parts_of_sample() {
  const TemporaryPath path;
  write_statistics(path, sample(), Existing::Refuse);
  const SafetensorsFile file(path);
  Parts parts;
  parts.metadata = file.metadata().at("kvcal");
  for (const TensorInfo& info : file.tensors()) {
    std::string bytes(info.bytes, '\0');
    file.read(info.offset, std::as_writable_bytes(std::span(bytes)));
    parts.tensors[info.name] = {info.dtype, info.shape, bytes};
  }
  return parts;
}

void write_parts(const Parts& parts, const TemporaryPath& path) {
  SafetensorsWriter writer(path, Existing::Replace, {{"kvcal", parts.metadata}}, parts.seal);
  for (const auto& [name, part] : parts.tensors) writer.declare(name, part.dtype, part.shape);
  for (const auto& [name, part] : parts.tensors) writer.write(name, std::as_bytes(std::span(part.bytes)));
  writer.commit();
}

/// Message that reading the parts gives, without the path.
std::string message_for(const Parts& parts) {
  const TemporaryPath path;
  write_parts(parts, path);
  const std::string message = message_of([&] { read_statistics(path); });
  return message.empty() ? "" : without_path(message, path);
}

constexpr uint64_t kOneRow = uint64_t{1} << 32;  // energy of a row, in its own units

struct Malformed {
  const char* name;
  void (*change)(Parts&);
  const char* message;  // its beginning
};

const Malformed kMalformed[] = {
    {"format", [](Parts& p) { p.replace("kvcal-stats", "other-stats"); },
     "metadata: format 'other-stats', expected 'kvcal-stats'"},
    {"version", [](Parts& p) { p.replace("\"1.4\"", "\"2.0\""); },
     "metadata: version '2.0' of the statistics format; this program reads 1.x"},
    {"version_text", [](Parts& p) { p.replace("\"1.4\"", "\"1.\""); }, "metadata: version '1.' of"},
    {"metadata_syntax", [](Parts& p) { p.metadata.pop_back(); }, "metadata: not valid JSON"},
    {"no_model", [](Parts& p) { p.replace("\"model\"", "\"modem\""); }, "metadata: key 'model' is missing"},
    {"passes", [](Parts& p) { p.replace("\"n_passes\":2", "\"n_passes\":-1"); },
     "metadata: key 'n_passes' is -1, expected 0 to"},
    {"more_passes", [](Parts& p) { p.replace("\"n_passes\":2", "\"n_passes\":3"); },
     "tensor 'c0.key.kind_absmax' is BF16 [2, 35], expected BF16 [3, 35]"},
    {"heads", [](Parts& p) { p.replace("\"n_kv_heads\":2", "\"n_kv_heads\":3"); },
     "tensor 'c0.key.absmax' is BF16 [2], expected BF16 [3]"},
    {"huge_heads", [](Parts& p) { p.replace("\"n_kv_heads\":2", "\"n_kv_heads\":9223372036854775807"); },
     "metadata: caches[0]: key 'n_kv_heads' is 9223372036854775807, expected 0 to"},
    {"many_heads", [](Parts& p) { p.replace("\"n_kv_heads\":2", "\"n_kv_heads\":16777216"); },
     "tensor 'c0.key.absmax' is BF16 [2], expected BF16 [16777216]"},
    {"cache_number", [](Parts& p) { p.replace("\"cache\":1", "\"cache\":0"); },
     "metadata: caches[1]: key 'cache' is 0, expected 1"},
    {"rotary", [](Parts& p) { p.replace("\"rotary_dim\":16", "\"rotary_dim\":26"); },
     "metadata: caches[0]: key 'rotary_dim' is 26, expected an even number up to head_dim_k, 24"},
    {"pair_bound", [](Parts& p) { p.replace("neox", "neo"); }, "metadata: caches[0]: unknown pair bound 'neo'"},
    {"missing_cache", [](Parts& p) { p.replace("\"cache\":1,", "\"kash\":1,"); },
     "metadata: caches[1]: key 'cache' is missing"},
    {"missing_tensor", [](Parts& p) { p.tensors.erase("c1.value.zero"); }, "tensor 'c1.value.zero' is missing"},
    {"extra_tensor", [](Parts& p) { p.tensors["c9.key.zero"] = p.tensors["c1.key.zero"]; },
     "tensor 'c9.key.zero' does not belong into a statistics file 1.4"},
    {"dtype", [](Parts& p) { p.tensors["c0.key.absmax"].dtype = DType::U16; },
     "tensor 'c0.key.absmax' is U16 [2], expected BF16 [2]"},
    {"shape", [](Parts& p) { p.tensors["c0.key.where"].shape = {12}; },
     "tensor 'c0.key.where' is I64 [12], expected I64 [2, 6]"},
    {"open_shape",
     [](Parts& p) {
       p.tensors["c0.key.hist_index"].shape = {1, p.tensors["c0.key.hist_index"].shape[0]};
     },
     "tensor 'c0.key.hist_index' is U16 [1, "},
    {"prompt_offsets", [](Parts& p) { p.set<uint64_t>("prompt_offsets", 1, uint64_t{1} << 60); },
     "prompt_offsets does not ascend from 0 to the 3 bytes of prompt_ids"},
    {"prompt_order", [](Parts& p) { p.tensors["prompt_ids"].bytes = "bac"; },
     "prompt id 'a' follows 'b', expected ascending ids"},
    {"prompt_utf8", [](Parts& p) { p.tensors["prompt_ids"].bytes = "ab\xff"; }, "prompt id '\\xff' is not UTF-8"},
    {"head_offsets_first", [](Parts& p) { p.set<uint64_t>("c0.key.head_offsets", 0, 1); },
     "cache 0, key: head_offsets does not ascend from 0 to the"},
    {"head_offsets_last", [](Parts& p) { p.add<uint64_t>("c0.key.head_offsets", 2, 1); },
     "cache 0, key: head_offsets does not ascend"},
    {"head_offsets_middle", [](Parts& p) { p.set<uint64_t>("c0.key.head_offsets", 1, ~uint64_t{0}); },
     "cache 0, key: head_offsets does not ascend"},
    {"channel_offsets", [](Parts& p) { p.set<uint64_t>("c0.value.channel_offsets", 7, uint64_t{1} << 63); },
     "cache 0, value: channel_offsets does not ascend"},
    {"code_zero", [](Parts& p) { p.set<uint16_t>("c0.key.hist_index", 0, 0); },
     "cache 0, key: head 0: histogram code 0 follows 0, expected ascending codes from 1"},
    {"code_order", [](Parts& p) { p.set<uint16_t>("c0.key.hist_index", 1, p.get<uint16_t>("c0.key.hist_index", 0)); },
     "cache 0, key: head 0: histogram code "},
    {"code_infinite", [](Parts& p) { p.set<uint16_t>("c0.key.hist_index", 1, 0x7F80); },
     "cache 0, key: head 0: the histogram has the code 32640, which is not finite"},
    {"code_sign", [](Parts& p) { p.set<uint16_t>("c0.key.hist_index", 1, 0x8001); },
     "cache 0, key: head 0: the histogram has the code 32769, which is not finite"},
    {"count_zero", [](Parts& p) { p.set<uint64_t>("c0.key.hist_count", 0, 0); },
     "cache 0, key: head 0: histogram code "},
    {"count_overflow", [](Parts& p) { p.set<uint64_t>("c0.key.hist_count", 0, ~uint64_t{0}); },
     "cache 0, key: head 0: more values are counted than the 18000 of all tokens"},
    {"count_more", [](Parts& p) { p.add<uint64_t>("c1.query.hist_count", 3, 1); },
     "cache 1, query: head 0: more values are counted than the 18000 of all tokens"},
    {"zeros_less", [](Parts& p) { p.add<uint64_t>("c1.query.zero", 3, ~uint64_t{0}); },
     "cache 1, query: head 3: 17999 values are counted, expected 18000, 750 tokens of 24 channels"},
    {"nan_for_zero",
     [](Parts& p) {
       p.add<uint64_t>("c1.key.zero", 1, ~uint64_t{0});
       p.set<uint64_t>("c1.key.nan", 1, 1);
     },
     "cache 1, key: head 1: octave 0: the channels' sums"},
    {"tokens", [](Parts& p) { p.set<uint64_t>("c1.key.n_tokens", 0, 749); },
     "cache 1, key: head 0: more values are counted than the 17976 of all tokens"},
    {"tokens_overflow", [](Parts& p) { p.set<uint64_t>("c1.key.n_tokens", 0, ~uint64_t{0}); },
     "cache 1, key: 18446744073709551615 tokens of 24 channels, expected at most 2^46 values"},
    {"absmax", [](Parts& p) { p.add<uint16_t>("c0.key.absmax", 1, 1); }, "cache 0, key: head 1: absmax has the code "},
    {"absmax_infinite", [](Parts& p) { p.set<uint16_t>("c0.key.absmax", 1, 0x7F80); },
     "cache 0, key: head 1: absmax has the code 32640, which is not finite"},
    {"where_pass", [](Parts& p) { p.set<int64_t>("c0.key.where", 0, 3); },
     "cache 0, key: head 0: absmax is placed at pass 3, prompt "},
    {"where_prompt", [](Parts& p) { p.set<int64_t>("c0.key.where", 1, -1); },
     "cache 0, key: head 0: absmax is placed at pass "},
    {"where_token", [](Parts& p) { p.set<int64_t>("c0.key.where", 2, -1); },
     "cache 0, key: head 0: absmax is placed at pass "},
    {"where_position", [](Parts& p) { p.set<int64_t>("c0.key.where", 3, 1000); },
     "cache 0, key: head 0: absmax lies at position 1000, but the maxima by position do not reach it"},
    {"where_position_max", [](Parts& p) { p.set<int64_t>("c0.key.where", 3, std::numeric_limits<int64_t>::max()); },
     "cache 0, key: head 0: absmax lies at position 9223372036854775807, but"},
    {"where_head", [](Parts& p) { p.set<int64_t>("c0.key.where", 4, 1); },
     "cache 0, key: head 0: absmax is placed at pass "},
    {"where_channel", [](Parts& p) { p.set<int64_t>("c0.key.where", 5, 24); },
     "cache 0, key: head 0: absmax is placed at pass "},
    {"where_other_channel",
     [](Parts& p) { p.set<int64_t>("c0.key.where", 5, (p.get<int64_t>("c0.key.where", 5) + 1) % 24); },
     "cache 0, key: head 0: absmax lies in channel "},
    {"token_octave_head", [](Parts& p) { p.set<uint64_t>("c0.value.token_octaves", 0, 2); },
     "cache 0, value: token_octaves has head 2, octave "},
    {"token_octave_order", [](Parts& p) { p.set<uint64_t>("c0.value.token_octaves", 1, 254); },
     "cache 0, value: head 0: token_octaves has octave "},
    {"token_octave_range", [](Parts& p) { p.set<uint64_t>("c0.value.token_octaves", 1, 256); },
     "cache 0, value: token_octaves has head 0, octave 256"},
    {"token_octave_count", [](Parts& p) { p.add<uint64_t>("c0.value.token_octaves", 2, ~uint64_t{0}); },
     "cache 0, value: head 0: token_octaves"},
    {"channel_absmax", [](Parts& p) { p.set<uint16_t>("c0.value.channel_absmax", 3, 0x7F7F); },
     "cache 0, value: head 0: channel 3: its last octave is "},
    {"channel_octave", [](Parts& p) { p.set<uint8_t>("c0.value.channel_octave", 1, 0); },
     "cache 0, value: head 0: channel 0: octave 0 follows 0"},
    {"channel_count", [](Parts& p) { p.add<int64_t>("c0.value.channel_count", 0, 1); },
     "cache 0, value: head 0: channel 0: counts 751 values, expected 750"},
    {"channel_count_negative", [](Parts& p) { p.set<int64_t>("c0.value.channel_count", 0, -5); },
     "cache 0, value: head 0: channel 0: octave 0 has count -5, m "},
    {"channel_sum_m", [](Parts& p) { p.add<int64_t>("c0.value.channel_sum_m", 2, 2); },
     "cache 0, value: head 0: octave "},
    {"channel_sum_m2", [](Parts& p) { p.add<int64_t>("c0.value.channel_sum_m2", 2, 1); },
     "cache 0, value: head 0: octave "},
    {"query_sum_m2", [](Parts& p) { p.add<int64_t>("c0.query.channel_sum_m2", 2, 1); },
     "cache 0, query: head 0: octave "},
    {"query_sum_m2_huge",
     [](Parts& p) { p.set<int64_t>("c0.query.channel_sum_m2", 2, std::numeric_limits<int64_t>::max()); },
     "cache 0, query: head 0: channel 0: octave "},
    {"channel_signed",
     [](Parts& p) { p.set<int64_t>("c0.value.channel_signed_sum_m", 2, std::numeric_limits<int64_t>::min()); },
     "cache 0, value: head 0: channel 0: octave "},
    {"channel_parity", [](Parts& p) { p.add<int64_t>("c0.value.channel_signed_sum_m", 2, 1); },
     "cache 0, value: head 0: channel 0: octave "},
    {"pair_norm_nan", [](Parts& p) { p.set<double>("c0.key.pair_norm", 2, std::numeric_limits<double>::quiet_NaN()); },
     "cache 0, key: head 0: the norm of pair 2 is not between"},
    {"pair_norm_large", [](Parts& p) { p.set<double>("c1.key.pair_norm", 9, 1e30); },
     "cache 1, key: head 1: the norm of pair 1 is not between"},
    {"pair_norm_small", [](Parts& p) { p.set<double>("c1.key.pair_norm", 9, 0); },
     "cache 1, key: head 1: the norm of pair 1 is not between"},
    {"position_absmax", [](Parts& p) { p.set<uint16_t>("c0.key.position_absmax", 0, 0x7F7F); },
     "cache 0, key: the largest of position_absmax has the code 32639, expected"},
    {"sampled_figure",
     [](Parts& p) {
       p.sampled({9, 0, 0, 0, 0, 1, 1, 1, 1});
     },
     "cache 0, key: sampled has figure 9, format 0, reader 0, head 0, rung"},
    {"sampled_sum",
     [](Parts& p) {
       p.sampled({0, 0, 0, 0, 0, 1, 1, ~uint64_t{0}, 1});
     },
     "cache 0, key: sampled has 1 rows of query head 0 for 1 tokens with the sum 18446744073709551615"},
    {"sampled_sum_without_a_largest",
     [](Parts& p) {
       p.sampled({0, 0, 0, 0, 0, 1, 1, 1, 0});
     },
     "cache 0, key: sampled has 1 rows of query head 0 for 1 tokens with the sum 1 and the largest 0"},
    {"sampled_tokens",
     [](Parts& p) {
       p.sampled({0, 0, 0, 0, 0, 2, 1, 1, 1});
     },
     "cache 0, key: sampled has 2 rows of query head 0 for 1 tokens"},
    {"row_formats_head",
     [](Parts& p) {
       p.row_formats({2, 1023, 1, kOneRow, 0, 0});
     },
     "cache 0, key: row_formats has head 2, octave 1023, which cannot be"},
    {"row_formats_octave",
     [](Parts& p) {
       p.row_formats({0, 2000, 1, kOneRow, 0, 0});
     },
     "cache 0, key: row_formats has head 0, octave 2000, which cannot be"},
    {"row_formats_order",
     [](Parts& p) {
       p.row_formats({0, 1023, 1, kOneRow, 0, 0, 0, 1023, 1, kOneRow, 0, 0});
     },
     "cache 0, key: row_formats is not in order"},
    {"row_formats_energy",
     [](Parts& p) {
       p.row_formats({0, 1023, 2, kOneRow, 0, 0});
     },
     "cache 0, key: row_formats has 2 rows of head 0 with the energy 4294967296 and the errors 0 and 0, which"},
    {"row_formats_error",
     [](Parts& p) {
       p.row_formats({0, 1023, 1, kOneRow, 0, kOneRow + 1});
     },
     "cache 0, key: row_formats has 1 rows of head 0 with the energy 4294967296 and the errors 0 and 4294967297"},
    {"row_formats_int4_length",
     [](Parts& p) {
       p.row_formats({0, 1023, 1, kOneRow, 0, 0});
       p.int4({0, 0});
     },
     "cache 0, key: row_formats_int4 has 2 entries, expected 1"},
    {"row_formats_int4_error",
     [](Parts& p) {
       p.row_formats({0, 1023, 1, kOneRow, 0, 0});
       p.int4({kOneRow + 1});
     },
     "cache 0, key: row_formats has 1 rows of head 0 with the energy 4294967296 and the errors 0 and 0 and 4294967297"},
    {"row_formats_int4_missing", [](Parts& p) { p.tensors.erase("c0.value.row_formats_int4"); },
     "tensor 'c0.value.row_formats_int4' is missing"},
    {"row_formats_rows",
     [](Parts& p) {
       p.row_formats({0, 0, ~uint64_t{0}, 0, 0, 0});
     },
     "cache 0, key: row_formats has 18446744073709551615 rows of head 0"},
    {"column_norm",
     [](Parts& p) {
       p.tensors["c0.value.column_norms"] = {DType::F32, Shape{1}, std::string(4, '\0')};
     },
     "cache 0, value: column_norms has 1 entries, expected"},
    {"prompt_absmax_sign", [](Parts& p) { p.set<uint16_t>("c0.key.prompt_absmax", 1, 0x8000); },
     "cache 0, key: prompt_absmax has the code 32768, which is not finite"},
};

class MalformedFile : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedFile, IsRefusedWithOneLine) {
  static const Parts whole = parts_of_sample();
  Parts parts = whole;
  GetParam().change(parts);
  const std::string message = message_for(parts);
  EXPECT_EQ(message.substr(0, std::strlen(GetParam().message)), GetParam().message) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(List, MalformedFile, testing::ValuesIn(kMalformed),
                         [](const auto& param) { return param.param.name; });

TEST(StatisticsFile, AnUntouchedCopyIsAccepted) { EXPECT_EQ(message_for(parts_of_sample()), ""); }

TEST(StatisticsFile, OfTheFirstVersionHasNoKindsAndNoSamples) {
  Parts parts = parts_of_sample();
  parts.replace("\"1.4\"", "\"1.0\"");
  EXPECT_NE(message_for(parts).find("kind_absmax' does not belong into a statistics file 1.0"), std::string::npos);
  std::erase_if(parts.tensors, [](const auto& entry) {
    const auto has = [&](const char* part) { return entry.first.find(part) != std::string::npos; };
    return has(".kind_") || has(".row_formats") || has(".sampled") || has(".column_norms");
  });
  EXPECT_EQ(message_for(parts), "");
}

TEST(StatisticsFile, OfVersion11WasNotTriedInInt4) {
  Parts parts = parts_of_sample();
  parts.row_formats({0, 1023, 1, kOneRow, 0, 0});
  parts.replace("\"1.4\"", "\"1.1\"");
  EXPECT_NE(message_for(parts).find("row_formats_int4' does not belong into a statistics file 1.1"), std::string::npos);
  std::erase_if(parts.tensors, [](const auto& entry) { return entry.first.ends_with(".row_formats_int4"); });
  EXPECT_EQ(message_for(parts), "");
}

TEST(StatisticsFile, OfVersion12HasNoSeal) {
  Parts parts = parts_of_sample();
  parts.seal = Seal::None;
  EXPECT_EQ(message_for(parts), "is damaged: version 1.4 without the entry 'kvcal_sha256'");
  parts.replace("\"1.4\"", "\"1.2\"");
  EXPECT_EQ(message_for(parts), "");
}

// Its rungs were powers of four.
TEST(StatisticsFile, OfVersion13HasHalfTheRungs) {
  for (const auto& [version, rung] : {std::pair("\"1.4\"", -3), {"\"1.3\"", -6}}) {
    Parts parts = parts_of_sample();
    parts.sampled({0, 0, 0, 0, static_cast<uint64_t>(int64_t{-3}), 1, 1, 1, 1});
    parts.replace("\"1.4\"", version);
    const TemporaryPath path;
    write_parts(parts, path);
    EXPECT_EQ(read_statistics(path).caches.at(0).at(CacheSite::Key).sampled.at(0).rung, rung) << version;
  }
}

TEST(StatisticsFile, LaterMinorVersionsMayKnowMoreTensors) {
  Parts parts = parts_of_sample();
  parts.replace("\"1.4\"", "\"1.7\"");
  parts.tensors["c0.key.something_new"] = {DType::U8, {3}, "abc"};
  EXPECT_EQ(message_for(parts), "");
}

}  // namespace
}  // namespace kvcal::stats_test
