// Headers that lie, files that are cut, offsets beyond 4 GiB.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "checkpoint/safetensors.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

std::string parse_message(const std::string& file) {
  return message_of([&] {
    const std::span bytes = std::as_bytes(std::span(file.data(), file.size()));
    const uint64_t n = safetensors_header_bytes(bytes, file.size());
    parse_safetensors_header(std::string_view(file).substr(8, n), file.size());
  });
}

std::string little_endian(uint64_t n) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(n >> (8 * i) & 0xFF);
  return bytes;
}

struct BadFile {
  const char* name;
  std::string file;
  std::string message;
};

std::string one(const std::string& entry, size_t n_data = 4) {
  return raw_safetensors("{\"t\":" + entry + "}", n_data);
}

std::string nested(int levels) {
  std::string text = "{\"t\":";
  for (int i = 0; i < levels; ++i) text += "[";
  return raw_safetensors(text, 0);
}

class BadSafetensors : public testing::TestWithParam<BadFile> {};

TEST_P(BadSafetensors, IsRefusedWithReason) {
  expect_contains(parse_message(GetParam().file), GetParam().message);
  TempFolder folder;
  folder.write("x.safetensors", GetParam().file);
  const std::string message = message_of([&] { SafetensorsFile file(folder / "x.safetensors"); });
  expect_contains(message, GetParam().message);
  EXPECT_EQ(message.rfind(quoted((folder / "x.safetensors").string()), 0), 0u) << message;
}

INSTANTIATE_TEST_SUITE_P(
    Length, BadSafetensors,
    testing::Values(
        BadFile{"empty", "", "has 0 bytes, too short for a safetensors file"},
        BadFile{"seven_bytes", "1234567", "has 7 bytes, too short"},
        BadFile{"git_lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
        BadFile{"header_beyond_file", little_endian(100) + "{}", "claims a header of 100 bytes, but has only 10"},
        BadFile{"header_100_mb", little_endian(100'000'001) + "{}",
                "claims a header of 100000001 bytes, expected at most 100000000"},
        BadFile{"header_2_to_64", little_endian(~uint64_t{0}) + "{}", "claims a header of 18446744073709551615 bytes"},
        BadFile{"header_2_to_63", little_endian(uint64_t{1} << 63) + "{}", "claims a header of 9223372036854775808"},
        BadFile{"empty_header", little_endian(0), "does not begin with '{'"}),
    [](const auto& bad) { return std::string(bad.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Json, BadSafetensors,
    testing::Values(BadFile{"not_json", raw_safetensors("{hello}", 0), "safetensors header: not valid JSON at line 1"},
                    BadFile{"space_first", raw_safetensors(" {}", 0), "does not begin with '{'"},
                    BadFile{"list", raw_safetensors("[]", 0), "does not begin with '{'"},
                    BadFile{"nan", one(R"({"dtype":"F32","shape":[NaN],"data_offsets":[0,4]})"), "not valid JSON"},
                    BadFile{"deep", nested(100), "nested deeper than 8 levels"},
                    BadFile{"very_deep", nested(1000000), "nested deeper than 8 levels"},
                    BadFile{"duplicate_tensor",
                            raw_safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                            R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                                            4),
                            "key 'a' appears twice"},
                    BadFile{"duplicate_key", one(R"({"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]})"),
                            "key 'dtype' appears twice"},
                    BadFile{"metadata_number", raw_safetensors(R"({"__metadata__":{"a":1}})", 0),
                            "'__metadata__' entry 'a' is not a string"},
                    BadFile{"metadata_list", raw_safetensors(R"({"__metadata__":[]})", 0),
                            "'__metadata__' is not an object"},
                    BadFile{"entry_list", one("[]"), "tensor 't': is described by something other than an object"},
                    BadFile{"invalid_utf8", raw_safetensors("{\"\xFF\":1}", 0), "not valid JSON"},
                    BadFile{"control_in_name", raw_safetensors("{\"a\\u001b[31m\":1}", 0), "tensor 'a\\x1b[31m'"}),
    [](const auto& bad) { return std::string(bad.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Entry, BadSafetensors,
    testing::Values(
        BadFile{"no_dtype", one(R"({"shape":[4],"data_offsets":[0,4]})"), "tensor 't': has no string 'dtype'"},
        BadFile{"unknown_dtype", one(R"({"dtype":"F7","shape":[4],"data_offsets":[0,4]})"), "has the dtype 'F7'"},
        BadFile{"no_shape", one(R"({"dtype":"U8","data_offsets":[0,4]})"), "has no list 'shape'"},
        BadFile{"no_offsets", one(R"({"dtype":"U8","shape":[4]})"), "has no list 'data_offsets' of two numbers"},
        BadFile{"three_offsets", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4,8]})"), "of two numbers"},
        BadFile{"negative_extent", one(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"),
                "an extent of its shape is '-4', expected a whole number that is not negative"},
        BadFile{"fraction_extent", one(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"), "is '4.0', expected"},
        BadFile{"string_extent", one(R"({"dtype":"U8","shape":["4"],"data_offsets":[0,4]})"),
                "expected a whole number"},
        BadFile{"negative_offset", one(R"({"dtype":"U8","shape":[4],"data_offsets":[-4,0]})"),
                "its first offset is '-4', expected"},
        BadFile{"offset_2_to_64", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551616]})"),
                "its second offset is"},
        BadFile{"offset_wraps",
                one(R"({"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,18446744073709551615]})"),
                "but only 4 bytes of data are in the file"},
        BadFile{"descending_offsets", one(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"),
                "has offsets [4, 0], expected ascending ones"},
        BadFile{"beyond_the_file", one(R"({"dtype":"U8","shape":[5],"data_offsets":[0,5]})"),
                "has offsets [0, 5], but only 4 bytes of data are in the file; was the download complete?"},
        BadFile{"dtype_size", one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,4]})"),
                "has 4 bytes at offsets [0, 4], expected 16 for F32 [4]"},
        BadFile{"shape_overflow",
                one(R"({"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,4]})"),
                "more than 2^63 elements"},
        BadFile{"shape_overflow_to_4_bytes",
                one(R"({"dtype":"F32","shape":[4611686018427387904,2,1,1,1],"data_offsets":[0,4]})"), "more than 2^63"},
        BadFile{"shape_overflow_before_zero",
                one(R"({"dtype":"F32","shape":[9223372036854775807,9223372036854775807,0],"data_offsets":[0,0]})"),
                "more than 2^63 elements"},
        BadFile{"extent_2_to_63", one(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4]})"),
                "more than 2^63 elements"},
        BadFile{"bits_overflow", one(R"({"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,4]})"),
                "more than 2^64 bits"},
        BadFile{"half_byte", one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,2]})"), "does not fill whole bytes"},
        BadFile{"rank_7", one(R"({"dtype":"U8","shape":[1,1,1,1,1,1,4],"data_offsets":[0,4]})"),
                "has 7 dimensions, expected at most 6"}),
    [](const auto& bad) { return std::string(bad.param.name); });

std::string two(const std::string& a, const std::string& b, size_t n_data) {
  const auto entry = [](const std::string& offsets, const std::string& n) {
    return "{\"dtype\":\"U8\",\"shape\":[" + n + "],\"data_offsets\":[" + offsets + "]}";
  };
  return raw_safetensors("{\"a\":" + entry(a, "4") + ",\"b\":" + entry(b, "4") + "}", n_data);
}

INSTANTIATE_TEST_SUITE_P(
    Layout, BadSafetensors,
    testing::Values(BadFile{"overlap", two("0,4", "2,6", 6), "tensor 'b' overlaps tensor 'a' by 2 bytes"},
                    BadFile{"same_bytes", two("0,4", "0,4", 4), "overlaps"},
                    BadFile{"gap", two("0,4", "6,10", 10),
                            "tensor 'b' begins at 6, expected 4: the format allows no gaps"},
                    BadFile{"gap_first", two("2,6", "6,10", 10), "tensor 'a' begins at 2, expected 0"},
                    BadFile{"trailing_bytes", two("0,4", "4,8", 9),
                            "the tensors end at byte 8 of the data, but the file has 9 bytes of data"},
                    BadFile{"truncated", two("0,4", "4,8", 7), "was the download complete?"},
                    BadFile{"data_without_tensors", raw_safetensors("{}", 3), "the tensors end at byte 0"}),
    [](const auto& bad) { return std::string(bad.param.name); });

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = two("4,8", "0,4", 8);
  EXPECT_EQ(parse_message(whole), "no error") << "offsets need not ascend with the names";
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_NE(parse_message(whole.substr(0, n)), "no error") << n;
}

TEST(Safetensors, EveryChangedHeaderByteIsSurvived) {
  const std::string whole = two("0,4", "4,8", 8);
  for (size_t i = 0; i < whole.size() - 8; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      static_cast<void>(parse_message(changed));
    }
}

TEST(Safetensors, ManyTinyValuesDoNotExhaustMemory) {
  // 24 MB of "[],": as a tree more than a gigabyte.
  std::string header = "{\"t\":[";
  for (int i = 0; i < (8 << 20); ++i) header += "[],";
  header += "[]]}";
  expect_contains(parse_message(raw_safetensors(header, 0)), "more than 4194304 values");
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"e":{"dtype":"F32","shape":[0,7],"data_offsets":[2,2]},)"
      R"("s":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"x":{"dtype":"F4","shape":[2,2],"data_offsets":[2,4],"later":1}}   )";
  TempFolder folder;
  folder.write("x.safetensors", raw_safetensors(header, 4));
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(str(*file.find("s")), "BF16 []");
  EXPECT_EQ(file.find("s")->offset, 8 + header.size());
  EXPECT_EQ(file.tensor(*file.find("s")).as<bf16>()->bits, 0x0100);
  EXPECT_TRUE(file.tensor(*file.find("e"))) << "empty is not absent";
  EXPECT_EQ(file.tensor(*file.find("e")).elements(), 0);
  EXPECT_EQ(file.find("nothing"), nullptr);
}

TEST(Safetensors, MisalignedTensorsAreCopiedToAlignedMemory) {
  TempFolder folder;
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"f":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}})";
  for (const size_t padding : {0, 1, 2, 3}) {
    folder.write("x.safetensors", raw_safetensors(header + std::string(padding, ' '), 11));
    for (const auto access : {MappedFile::Access::MapOrRead, MappedFile::Access::ReadOnly}) {
      const SafetensorsFile file(folder / "x.safetensors", access);
      const Tensor t = file.tensor(*file.find("f"));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data) % 4, 0u);
      EXPECT_EQ(std::memcmp(t.data, "\x03\x04\x05\x06\x07\x08\x09\x0a", 8), 0);
      EXPECT_EQ(file.tensor(*file.find("f")).data, t.data) << "one copy serves all";
      file.drop(*file.find("f"));
      EXPECT_EQ(std::memcmp(file.tensor(*file.find("f")).data, "\x03\x04\x05\x06\x07\x08\x09\x0a", 8), 0);
    }
  }
}

TEST(Safetensors, OffsetsBeyondFourGibibytes) {
  constexpr int64_t kLarge = int64_t{5} << 30;
  const std::string large = std::to_string(kLarge);
  std::string header = R"({"a":{"dtype":"U8","shape":[)" + large + R"(],"data_offsets":[0,)" + large +
                       R"(]},"z":{"dtype":"F32","shape":[1],"data_offsets":[)" + large + "," +
                       std::to_string(kLarge + 4) + "]}}";
  header.append((8 - header.size() % 8) % 8, ' ');
  TempFolder folder;
  folder.write("x.safetensors", raw_safetensors(header, 0));
  const uint64_t z = 8 + header.size() + static_cast<uint64_t>(kLarge);
  ASSERT_EQ(::truncate((folder / "x.safetensors").c_str(), static_cast<off_t>(z + 4)), 0) << "needs sparse files";
  {
    std::fstream file(folder / "x.safetensors", std::ios::binary | std::ios::in | std::ios::out);
    const float value = 1.5f;
    file.seekp(static_cast<std::streamoff>(z));
    file.write(reinterpret_cast<const char*>(&value), 4);
  }
  for (const auto access : {MappedFile::Access::MapOrRead, MappedFile::Access::ReadOnly}) {
    const SafetensorsFile file(folder / "x.safetensors", access);
    EXPECT_EQ(file.find("z")->offset, z);
    EXPECT_EQ(*file.tensor(*file.find("z")).as<float>(), 1.5f);
  }
}

TEST(Safetensors, FilesThatAreNone) {
  TempFolder folder;
  expect_contains(message_of([&] { SafetensorsFile file(folder / "none"); }), "cannot open: no such file or directory");
  expect_contains(message_of([&] { SafetensorsFile file(folder.path()); }), "is a folder, expected a file");
  expect_contains(message_of([&] { SafetensorsFile file("/dev/null"); }), "is not a regular file");
  std::filesystem::create_symlink("loop", folder / "loop");
  expect_contains(message_of([&] { SafetensorsFile file(folder / "loop"); }), "cannot open: too many levels");
}

}  // namespace
}  // namespace kvcal
