// What runs in place of a Python may say anything, or nothing.
#include "ask_python.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace kvcal {
namespace {

using std::chrono::milliseconds;

class AskPython : public testing::Test {
 protected:
  ~AskPython() override { std::filesystem::remove(path_); }

  /// The error of asking a program that a shell reads; "" where it answers.
  std::string error_of(const std::string& program, milliseconds patience = milliseconds(20000)) {
    std::ofstream(path_) << "#!/bin/sh\n" << program;
    ::chmod(path_.c_str(), 0700);
    try {
      ask_python(path_.string(), patience);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  bool says(const std::string& error, const std::string& part) { return error.find(part) != std::string::npos; }

  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) / ("ask_python_" + std::to_string(::getpid()));
};

TEST_F(AskPython, TakesTheAnswerBetweenOtherLines) {
  EXPECT_EQ(error_of("echo hello; echo '{\"installed\": []}'; echo bye"), "");
}

TEST_F(AskPython, WaitsForNobody) {
  EXPECT_TRUE(says(error_of("sleep 60", milliseconds(200)), "no answer within"));
  EXPECT_TRUE(says(error_of("exec >&- 2>&-; sleep 60", milliseconds(200)), "no answer within"));
  EXPECT_TRUE(says(error_of("sleep 60 & echo '{\"installed\": []}'", milliseconds(200)), "no answer within"));
}

TEST_F(AskPython, StopsAFlood) { EXPECT_TRUE(says(error_of("yes"), "more than 4 MiB")); }

TEST_F(AskPython, ShowsTheLastLineOfAFailure) {
  EXPECT_TRUE(says(error_of("echo one; echo 'ModuleNotFoundError: x'; exit 1"), "'ModuleNotFoundError: x'"));
  EXPECT_TRUE(says(error_of("echo '{\"installed\": ['"), "cannot run"));
  EXPECT_TRUE(says(error_of("exit 3"), "no answer"));
}

}  // namespace
}  // namespace kvcal
