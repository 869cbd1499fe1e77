// The README's generated tables are what the code makes of them. 'test_readme --update' writes them.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/read_file.h"
#include "readme/tables.h"

namespace kvcal::readme {
namespace {

const std::filesystem::path kReadme = std::filesystem::path(KVCAL_SOURCE_DIR) / "README.md";

std::string text() { return read_file(kReadme, size_t{1} << 20); }

TEST(Readme, ItsTablesAreTrue) {
  EXPECT_TRUE(text() == with_tables(text())) << "README.md is not what the code makes of it; run: test_readme --update";
}

}  // namespace

void update() {
  const std::string updated = with_tables(text());
  std::ofstream(kReadme) << updated;
}

}  // namespace kvcal::readme

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--update")) {
    kvcal::readme::update();
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
