// Model folders and safetensors files for the checkpoint tests, well-formed and broken.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "harness/message_of.h"

namespace kvcal {

/// A folder of its own for each test, removed afterwards.
class TempFolder {
 public:
  TempFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name() + " é " + std::to_string(::getpid());
    for (char& c : name)
      if (c == '/') c = '.';
    path_ = std::filesystem::path(testing::TempDir()) / name;
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }

 private:
  std::filesystem::path path_;
};

/// A file with this header text, valid or not, and n_data bytes 0, 1, 2, ...
inline std::string raw_safetensors(const std::string& header, size_t n_data) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(uint64_t{header.size()} >> shift & 0xFF);
  bytes += header;
  for (size_t i = 0; i < n_data; ++i) bytes += static_cast<char>(i);
  return bytes;
}

struct TestTensor {
  std::string name;
  DType dtype;
  Shape shape;
};

/// Tensors filled with bytes that depend on the name alone, so that they are equal in whichever shard they are.
inline void write_tensors(const std::filesystem::path& path, const std::vector<TestTensor>& tensors) {
  SafetensorsWriter writer(path, Existing::Replace);
  std::map<std::string, std::string> contents;
  for (const TestTensor& t : tensors) {
    writer.declare(t.name, t.dtype, t.shape);
    std::string bytes(static_cast<size_t>(t.shape.elements()) * static_cast<size_t>(bits_of(t.dtype)) / 8, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(t.name.size() * 31 + t.name.back() + i * 7);
    contents[t.name] = bytes;
  }
  for (const auto& [name, bytes] : contents) writer.write(name, std::as_bytes(std::span(bytes.data(), bytes.size())));
  writer.commit();
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "message: " << text << "\nexpected part: " << part;
  EXPECT_EQ(text.find('\n'), std::string::npos) << "a message is one line: " << text;
}

}  // namespace kvcal
