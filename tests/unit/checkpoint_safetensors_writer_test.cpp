// Equal content gives equal bytes, and what does not fit the declarations leaves no file.
#include <gtest/gtest.h>

#include "base/read_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

std::string little_endian(uint64_t n) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(n >> (8 * i) & 0xFF);
  return bytes;
}

TEST(SafetensorsWriter, CanonicalBytes) {
  TempFolder folder;
  const auto write = [&](const std::string& name, bool reversed) {
    SafetensorsWriter writer(folder / name, Existing::Refuse, {{"b", "2"}, {"a", "\"1\"\n"}});
    if (reversed) {
      writer.declare("y", DType::U8, {3});
      writer.declare("x", DType::U16, {2});
    } else {
      writer.declare("x", DType::U16, {2});
      writer.declare("y", DType::U8, {3});
    }
    writer.declare("z", DType::F64, {0});
    const std::byte bytes[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    writer.write("x", std::span(bytes, 1));
    writer.write("x", std::span(bytes + 1, 3));
    writer.write("y", std::span(bytes, 3));
    writer.commit();
    return read_file(folder / name, 10000);
  };
  const std::string header =
      R"({"__metadata__":{"a":"\"1\"\n","b":"2"},"x":{"dtype":"U16","shape":[2],"data_offsets":[0,4]},)"
      R"("y":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},"z":{"dtype":"F64","shape":[0],"data_offsets":[7,7]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const std::string expected = little_endian(padded.size()) + padded + "\x01\x02\x03\x04\x01\x02\x03";
  EXPECT_EQ(write("one", false), expected);
  EXPECT_EQ(write("two", true), expected);
  EXPECT_EQ(SafetensorsFile(folder / "one").metadata().at("a"), "\"1\"\n");
}

TEST(SafetensorsWriter, RefusesWhatDoesNotFit) {
  TempFolder folder;
  const std::byte bytes[8]{};
  const auto message = [&](auto use) {
    return message_of([&] {
      SafetensorsWriter writer(folder / "x", Existing::Refuse);
      writer.declare("a", DType::U8, {4});
      writer.declare("b", DType::U8, {2});
      use(writer);
    });
  };
  EXPECT_EQ(message([&](auto& w) { w.write("b", std::span(bytes, 2)); }),
            "bytes of tensor 'b' come when 'a' is expected");
  EXPECT_EQ(message([&](auto& w) { w.write("a", std::span(bytes, 5)); }), "tensor 'a' gets more than its 4 bytes");
  EXPECT_EQ(message([&](auto& w) { w.write("a", std::span(bytes, 3)), w.commit(); }),
            "tensor 'a' got 3 of its 4 bytes");
  EXPECT_EQ(message([&](auto& w) { w.declare("a", DType::U8, {1}), w.commit(); }), "tensor 'a' is declared twice");
  EXPECT_EQ(message([&](auto& w) { w.write("a", std::span(bytes, 1)), w.declare("c", DType::U8, {1}); }),
            "tensor 'c' is declared after the first bytes were written");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "failures leave nothing behind";
}

}  // namespace
}  // namespace kvcal
