msprobe_fuzzer(xlsx report xlsx_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/xlsx"
               READER report/xlsx_reader.cpp report/sheet_reader.cpp report/xml_events.cpp report/csv_reader.cpp)
