// Walking, linking and copying the files of a model folder.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace kvcal {

struct FolderEntry {
  std::filesystem::path name;  // within the folder
  std::filesystem::path path;
  bool is_folder = false;
  bool is_folder_link = false;  // a symbolic link to one, which is not entered
};

/// Everything below a folder, folders before what is in them, sorted by name; symbolic links to files count as files.
/// Throws Error for what is neither file nor folder, and for more
/// than a model folder can hold.
std::vector<FolderEntry> folder_entries(const std::filesystem::path& folder);

/// Where a symbolic link leads, if that is outside of the folder; "" for what stays within it, is no link, or leads
/// from a snapshot of the Hub's cache to the blobs that belong to it.
std::filesystem::path target_outside(const std::filesystem::path& entry, const std::filesystem::path& folder);

void make_folder(const std::filesystem::path& path);

/// A path in full, with links resolved and without a slash at its end; it need not exist.
std::filesystem::path place_of(const std::filesystem::path& path);

/// Throws Error when `out` is inside the model's folder, or contains it.
void check_apart(const std::filesystem::path& model, const std::filesystem::path& out);

/// Throws Error when `out`, which is to give way to `replacement`, has something that is neither among `made` nor in
/// the replacement: somebody put it there.
void check_nothing_lost(const std::filesystem::path& out, const std::set<std::string>& made,
                        const std::filesystem::path& replacement);

/// A hard link to the file behind `from` (true), else a symbolic one to its full path (false).
bool link_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// A hard link to exactly this file, or a symbolic link of the same text. Throws where there are no hard links.
void twin_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// The content on the disk, with its permissions.
void copy_file_durably(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace kvcal
