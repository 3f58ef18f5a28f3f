// A folder whose content is run or believed, and which therefore nobody else may have prepared.
//
//   make_private_folder("/home/me/.cache/millrace/cosim");          // made with rights for its owner alone where it is not there
//
//   /tmp/millrace-cosim-1000: belongs to user 1001, who could put programs there; remove it, or choose another folder
//
// Fails with kIo when the folder belongs to somebody else, when anybody else may write into it, or when its name is a link that somebody
// else made. Names in world-writable folders can be taken by whoever comes first, so this is asked before anything in it is used.
// Limit: the folders above are not looked at; who may rename those may do anything.
#pragma once

#include <filesystem>

namespace millrace {

void make_private_folder(const std::filesystem::path& folder);

// Likewise of a file that is about to be loaded.
void require_own_file(const std::filesystem::path& file);

// Of a folder that is only written to, where there is one: in a folder into which anybody may write, such as /tmp, somebody else's may be a
// trap of links to our files.
void refuse_planted_folder(const std::filesystem::path& folder);

}  // namespace millrace
