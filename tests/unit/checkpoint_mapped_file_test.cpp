// Mapped and read access give the same bytes; files that change and address space that runs out are errors, not
// signals.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

TEST(MappedFile, LimitedAddressSpaceFallsBackToReading) {
#ifdef KVCAL_SANITIZED
  GTEST_SKIP() << "sanitizers reserve address space of their own";
#endif
  TempFolder folder;
  write_tensors(folder / "x.safetensors", {{"small", DType::F32, {4}}, {"wide", DType::U8, {int64_t{256} << 20}}});
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  struct rlimit small = before;
  small.rlim_cur = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + (64u << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
  std::string wide;
  bool mapped = true, read = false;
  {
    const SafetensorsFile file(folder / "x.safetensors");
    mapped = file.file().is_mapped();
    read = file.tensor(*file.find("small")).bytes() == 16;
    wide = message_of([&] { file.tensor(*file.find("wide")); });
  }
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_FALSE(mapped);
  EXPECT_TRUE(read);
  expect_contains(wide, "no memory for 268435456 bytes of it");
}

TEST(MappedFile, AFileThatShrinksIsNoticed) {
  TempFolder folder;
  write_tensors(folder / "x.safetensors", {{"a", DType::U8, {8192}}, {"b", DType::U8, {8192}}});
  for (const auto access : {MappedFile::Access::MapOrRead, MappedFile::Access::ReadOnly}) {
    write_tensors(folder / "x.safetensors", {{"a", DType::U8, {8192}}, {"b", DType::U8, {8192}}});
    const SafetensorsFile file(folder / "x.safetensors", access);
    std::filesystem::resize_file(folder / "x.safetensors", 9000);
    EXPECT_EQ(message_of([&] { file.tensor(*file.find("a")); }), "no error");
    expect_contains(message_of([&] { file.tensor(*file.find("b")); }), "has become shorter while in use: 9000 bytes");
  }
}

TEST(MappedFile, PrefetchAndDropKeepTheContent) {
  TempFolder folder;
  std::string content(100000, '\0');
  std::iota(content.begin(), content.end(), '\0');
  folder.write("x", content);
  for (const auto access : {MappedFile::Access::MapOrRead, MappedFile::Access::ReadOnly}) {
    const MappedFile file(folder / "x", access);
    EXPECT_EQ(file.is_mapped(), access == MappedFile::Access::MapOrRead);
    file.prefetch(0, 100000);
    file.prefetch(99999, 1);
    const auto whole = file.range(0, 100000, 64);
    EXPECT_EQ(std::memcmp(whole.data(), content.data(), content.size()), 0);
    const auto part = file.range(5000, 10, 1);
    const auto longer = file.range(5005, 50, 1);
    file.drop(4999, 11);  // holds part, not whole and not longer: those must stay (address sanitizer)
    EXPECT_EQ(std::memcmp(whole.data(), content.data(), content.size()), 0);
    EXPECT_EQ(std::memcmp(longer.data(), content.data() + 5005, longer.size()), 0);
    file.drop(0, 100000);
    EXPECT_EQ(std::memcmp(file.range(5000, 10, 1).data(), content.data() + 5000, 10), 0);
    static_cast<void>(part);
  }
}

}  // namespace
}  // namespace kvcal
