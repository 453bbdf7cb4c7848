msprobe_fuzzer(graph analysis/graph graph_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/graph"
               READER analysis/graph/build.cpp analysis/graph/match.cpp analysis/graph/communication.cpp analysis/graph/items.cpp)
msprobe_fuzzer(stored_graph analysis/graph stored_graph_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/stored_graph"
               READER analysis/graph/stored_*.cpp database/sqlite_file.cpp)
