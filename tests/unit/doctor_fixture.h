// Cases of the doctor: a text file with sections, turned into inputs.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/read_file.h"
#include "doctor/diagnose.h"

namespace kvcal {

inline Doctor::Source reading(std::string text) {
  return [text = std::move(text), at = size_t{0}](char* buffer, size_t bytes) mutable {
    const size_t n = text.copy(buffer, bytes, at);
    at += n;
    return n;
  };
}

inline Diagnosis diagnose_log(const std::string& text) {
  Doctor doctor;
  doctor.add_log("server.log", reading(text));
  return doctor.diagnose();
}

inline std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// "== log" begins a section; text before the first one says what the case is about.
using Sections = std::map<std::string, std::string>;
inline Sections sections_of(const std::string& text) {
  std::istringstream in(text);
  Sections sections;
  std::string name;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("== "))
      sections[name = line.substr(3)];
    else if (!name.empty())
      sections[name] += line + "\n";
  }
  return sections;
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Lines "name value value ...": F32 tensors of these values.
inline std::string safetensors_of(const std::string& lines) {
  std::istringstream in(lines);
  std::string header = "{", bytes;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, word;
    if (!(words >> name)) continue;
    const size_t begin = bytes.size();
    while (words >> word) {
      const float value = std::stof(word);
      char raw[sizeof value];
      std::memcpy(raw, &value, sizeof value);
      bytes.append(raw, sizeof value);
    }
    header += (header.size() > 1 ? "," : "") + ("\"" + name) + "\":{\"dtype\":\"F32\",\"shape\":[" +
              std::to_string((bytes.size() - begin) / 4) + "],\"data_offsets\":[" + std::to_string(begin) + "," +
              std::to_string(bytes.size()) + "]}";
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + bytes;
}

}  // namespace kvcal
