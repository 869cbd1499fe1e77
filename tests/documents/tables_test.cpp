// The generated tables of documents are what the code makes of them. 'test_documents --update' writes them.
#include "documents/tables.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/read_file.h"

namespace kvcal::documents {
namespace {

std::filesystem::path path_of(const std::string& document) {
  return std::filesystem::path(KVCAL_SOURCE_DIR) / document;
}

std::string text_of(const std::string& document) { return read_file(path_of(document), size_t{1} << 20); }

std::set<std::string> documents_with_tables() {
  std::set<std::string> documents;
  for (const Table& table : tables()) documents.insert(table.document);
  return documents;
}

TEST(Documents, TheirTablesAreTrue) {
  for (const std::string& document : documents_with_tables())
    EXPECT_TRUE(text_of(document) == with_tables(document, text_of(document)))
        << document << " is not what the code makes of it; run: test_documents --update";
}

}  // namespace

void update() {
  for (const std::string& document : documents_with_tables()) {
    const std::string updated = with_tables(document, text_of(document));
    std::ofstream(path_of(document)) << updated;
  }
}

}  // namespace kvcal::documents

int main(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--update")) {
    kvcal::documents::update();
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
