#pragma once

// Files that a case makes for itself.

#include <cstddef>
#include <span>
#include <string>

namespace isthmus::workload {

/// Where they are made: TMPDIR, else /tmp.
std::string scratch_folder();

/// A file without a name in the scratch folder: it is gone when it is closed, however this process ends. The caller
/// closes it. Throws Skip where none can be made.
int open_scratch_file();

/// Whether the file lies in memory alone (tmpfs, ramfs).
bool lies_in_memory(int file);

/// Throws Skip (memory) where the scratch folder lacks room for so many bytes.
void need_scratch_room(std::size_t bytes);

/// Writes all of it; may be called by several threads. Throws Skip (memory) where there is no room.
void write_scratch_file(int file, std::span<const std::byte> bytes, std::size_t offset);
/// Returns when all of it is on the device, so that its pages can be dropped.
void flush_scratch_file(int file);

}  // namespace isthmus::workload
