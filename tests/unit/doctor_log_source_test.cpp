// Logs from files and pipes, and what never ends.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "doctor/diagnose.h"

namespace kvcal {
namespace {

std::string all_of(const std::string& name, uint64_t most = kMostStreamedBytes) {
  std::string out, buffer(1000, '\0');
  try {
    const Doctor::Source source = log_source(name, most);
    while (const size_t n = source(buffer.data(), buffer.size())) out.append(buffer, 0, n);
  } catch (const Error& e) {
    return e.what();
  }
  return out;
}

class LogSource : public testing::Test {
 protected:
  LogSource() {
    std::string name = (std::filesystem::temp_directory_path() / "kvcal-log-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~LogSource() override { std::filesystem::remove_all(folder_); }
  std::string at(const char* name) const { return folder_ + "/" + name; }

  std::string folder_;
};

/// A pipe as a shell hands it over, which holds `text`.
std::string read_pipe(const std::string& text, uint64_t most = kMostStreamedBytes) {
  int ends[2] = {};
  EXPECT_EQ(::pipe(ends), 0);
  EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  std::string out = all_of("/dev/fd/" + std::to_string(ends[0]), most);
  ::close(ends[0]);
  return out;
}

TEST_F(LogSource, files_and_pipes_are_read_whole) {
  std::ofstream(at("log")) << std::string(5000, 'x');
  EXPECT_EQ(all_of(at("log"), 10), std::string(5000, 'x'));
  EXPECT_EQ(read_pipe(std::string(5000, 'x')), std::string(5000, 'x'));
}

TEST_F(LogSource, what_may_never_end_is_refused) {
  const std::string message = read_pipe(std::string(5000, 'x'), 4999);
  EXPECT_NE(message.find("gives more than 4.9 KiB, and may never end"), std::string::npos) << message;
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", at("link"));
  for (const char* name : {"pipe", "link"})
    EXPECT_EQ(all_of(at(name)), "'" + at(name) +
                                    "': is a named pipe, which may never end; expected a file, '-' for standard input, "
                                    "or <(COMMAND)");
  for (const char* name : {"/dev/zero", "/dev/urandom", "/dev/null"})
    EXPECT_NE(all_of(name).find("is a device or socket, which may never end"), std::string::npos) << name;
  EXPECT_EQ(all_of(folder_), "'" + folder_ + "': cannot be read: is a directory");
}

}  // namespace
}  // namespace kvcal
