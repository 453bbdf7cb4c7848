// What SQLite reads an open file by. Its own way opens a path, and whoever may write to the folder
// can put another file under it between the look at it and the opening.
#pragma once

namespace msprobe::database {

// The name under which sqlite3_open_v2 finds it; null: SQLite refuses it. The name of a database is
// then "/<descriptor>", which stays open longer than the database and is not closed by it. Files
// that SQLite makes for itself are those of its own way.
const char* DescriptorVfs();

}  // namespace msprobe::database
