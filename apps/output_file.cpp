#include "output_file.h"

#include "terminal.h"

namespace kvcal {

bool is_standard_output(const std::filesystem::path& path) { return path == "-"; }

void check_output(const std::filesystem::path& path, Existing existing) {
  if (!is_standard_output(path)) check_writable(path, existing);
}

void write_output(const std::filesystem::path& path, std::string_view text, Existing existing) {
  if (is_standard_output(path))
    write_bytes(text);
  else
    write_file_atomically(path, text, existing);
}

void write_beside_output(const std::filesystem::path& path, const Lines& lines) {
  if (is_standard_output(path))
    say_result(lines);
  else
    write_result(lines);
}

std::string output_name(const std::filesystem::path& path) {
  return is_standard_output(path) ? "standard output" : path.string();
}

}  // namespace kvcal
