// A folder that one run works in is refused to another, and free again when it ends.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/folder_lock.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

TEST(FolderLock, IsHeldByOneAtATime) {
  const fs::path folder = fs::path(testing::TempDir()) / ("kvcal folder lock " + std::to_string(::getpid()));
  fs::create_directories(folder);
  {
    const FolderLock first(folder);
    EXPECT_NE(message_of([&] { FolderLock{folder}; }).find("is in use by another run"), std::string::npos);
  }
  EXPECT_EQ(message_of([&] { FolderLock{folder}; }), message_of([] {}));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace kvcal
