#include "src/profile/ascend_database/reader.h"

#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "tests/unit/profile/profile_files.h"

namespace msprobe::profile {
namespace {

Needs Everything() {
  Needs needs;
  needs.operators = needs.kernels = needs.flows = needs.python_calls = needs.memory = true;
  needs.communication = needs.overlap = needs.kernel_details = needs.operator_statistics = true;
  return needs;
}

constexpr const char* kTables = R"(
  CREATE TABLE STRING_IDS(id INTEGER PRIMARY KEY, value TEXT);
  CREATE TABLE ENUM_API_TYPE(id INTEGER PRIMARY KEY, name TEXT);
  CREATE TABLE PYTORCH_API(startNs INTEGER, endNs INTEGER, connectionId INTEGER, name INTEGER, inputShapes INTEGER, type INTEGER);
  CREATE TABLE CONNECTION_IDS(id INTEGER, connectionId INTEGER);
  CREATE TABLE TASK(startNs INTEGER, endNs INTEGER, connectionId INTEGER, globalTaskId INTEGER, taskType INTEGER);
  CREATE TABLE COMPUTE_TASK_INFO(name INTEGER, globalTaskId INTEGER, taskType INTEGER, opType INTEGER, inputShapes INTEGER);
  CREATE TABLE COMMUNICATION_OP(opName INTEGER, startNs INTEGER, endNs INTEGER, groupName INTEGER, opId INTEGER, opType INTEGER);
  CREATE TABLE COMMUNICATION_TASK_INFO(name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, opId INTEGER);
  CREATE TABLE OP_MEMORY(name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER);
  CREATE TABLE MEMORY_RECORD(totalReserved INTEGER);
  CREATE TABLE TASK_PMU_INFO(globalTaskId INTEGER, name INTEGER, value REAL);
  CREATE TABLE STEP_TIME(id INTEGER, startNs INTEGER, endNs INTEGER);
  INSERT INTO ENUM_API_TYPE VALUES(1,'op'),(2,'queue'),(3,'trace');
  INSERT INTO STRING_IDS VALUES(1,'aten::relu'),(2,'64;64'),(3,'aclnnRelu'),(4,'AI_CORE'),(5,'Relu'),
    (6,'KERNEL_AICORE'),(7,'hcom_allReduce__0'),(8,'hcom_allReduce_'),(9,'Notify_Wait'),(10,'Enqueue'),
    (11,'Dequeue'),(12,'cann::relu'),(13,'nn.Module: Net_0'),(14,'aicore_time'),(15,'ReluBackward0');
  INSERT INTO STEP_TIME VALUES(5,1000000,2000000),(6,2000001,3000000);
)";

// aten::relu with a link to its backward call and one to its kernel; a collective that the kernel
// hides partly.
constexpr const char* kRows = R"(
  INSERT INTO PYTORCH_API VALUES(1000000,1500000,1,1,2,1),(1600000,1700000,2,15,NULL,1),
    (1100000,1200000,NULL,13,NULL,3),(1300000,1300100,77,10,NULL,2),(1400000,1400500,77,11,NULL,2);
  INSERT INTO CONNECTION_IDS VALUES(1,900),(1,3),(2,900);
  INSERT INTO TASK VALUES(1510000,1530000,3,1,6),(1520000,1525000,NULL,2,6),(1900000,1910500,NULL,3,6);
  INSERT INTO COMPUTE_TASK_INFO VALUES(3,1,4,5,2),(3,3,4,5,NULL),(3,99,4,5,NULL);
  INSERT INTO TASK_PMU_INFO VALUES(1,14,19000.0),(3,14,0);
  INSERT INTO COMMUNICATION_OP VALUES(7,1515000,1550000,1,42,8);
  INSERT INTO COMMUNICATION_TASK_INFO VALUES(9,2,9,0,42);
  INSERT INTO OP_MEMORY VALUES(1,524288,1700000000002009160,NULL),(12,64,1400200,1500200);
  INSERT INTO MEMORY_RECORD VALUES(1073741824),(2147483648);
)";

class ReadAscendDatabaseTest : public ::testing::Test {
 protected:
  std::filesystem::path Written(const std::string& statements) const {
    const std::filesystem::path path = files_.folder() / "ascend_pytorch_profiler_0.db";
    std::filesystem::remove(path);
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    char* message = nullptr;
    const std::string unsafe_but_fast = "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF;";
    EXPECT_EQ(
        sqlite3_exec(database, (unsafe_but_fast + statements).c_str(), nullptr, nullptr, &message),
        SQLITE_OK)
        << message;
    sqlite3_close(database);
    return path;
  }
  Profile Read(const std::string& statements = std::string(kTables) + kRows,
               const Needs& needs = Everything()) const {
    Result<Profile> profile = ReadAscendDatabase(Written(statements), needs);
    EXPECT_TRUE(profile.ok()) << profile.status().message();
    return profile.ok() ? *std::move(profile) : Profile();
  }

  ProfileFiles files_;
};

TEST_F(ReadAscendDatabaseTest, ListsACallOncePerConnectionAndItsKernelsOnce) {
  const Profile profile = Read();
  EXPECT_EQ(profile.source, Source::kDatabase);
  ASSERT_EQ(profile.operators.size(), 3U);
  EXPECT_EQ(profile.texts[profile.operators[0].name], "aten::relu");
  EXPECT_EQ(profile.texts[profile.operators[0].shapes], "64;64");
  EXPECT_EQ(profile.texts[profile.operators[2].shapes], "None");
  EXPECT_EQ(profile.texts[profile.operators[2].types], "N/A");
  EXPECT_FALSE(profile.operators[0].launches);
  EXPECT_TRUE(profile.operators[1].launches);
  EXPECT_FALSE(profile.operators[2].launches);
  EXPECT_EQ(profile.operators[1].duration_us, 500);
  ASSERT_EQ(profile.flows.size(), 1U);
  EXPECT_EQ(profile.flows[0].start, 1'000'000);
  EXPECT_EQ(profile.flows[0].end, 1'510'000);
  EXPECT_EQ(profile.flows[0].end_thread, profile.kernels[0].thread);
}

TEST_F(ReadAscendDatabaseTest, LetsOneOperatorOfACallStandForAllItsKernels) {
  const Profile profile = Read(std::string(kTables) + kRows +
                               "UPDATE TASK SET connectionId = 900 WHERE globalTaskId = 3;");
  EXPECT_TRUE(profile.operators[0].launches);
  EXPECT_FALSE(profile.operators[1].launches);
}

TEST_F(ReadAscendDatabaseTest, LinksForwardAndBackwardBySharedConnections) {
  const Profile profile = Read();
  ASSERT_EQ(profile.forward_backward.size(), 1U);
  EXPECT_EQ(profile.forward_backward[0].start, 1'000'000);
  EXPECT_EQ(profile.forward_backward[0].end, 1'600'000);
  ASSERT_EQ(profile.python_calls.size(), 1U);
  EXPECT_TRUE(profile.python_calls[0].is_module);
}

TEST_F(ReadAscendDatabaseTest, TellsCubeByMeasurementsAndElseByTheTask) {
  const Profile measured = Read();
  ASSERT_EQ(measured.kernel_details.size(), 2U);
  EXPECT_TRUE(measured.kernel_details[0].is_cube);
  EXPECT_EQ(measured.kernel_details[0].aicore_us, 19);
  EXPECT_FALSE(measured.kernel_details[1].is_cube);
  const Profile plain = Read(std::string(kTables) + kRows + "DROP TABLE TASK_PMU_INFO;");
  EXPECT_TRUE(plain.kernel_details[1].is_cube);
  EXPECT_TRUE(plain.has_kernel_metrics);
}

TEST_F(ReadAscendDatabaseTest, ReadsKernelsWithTheirNumbers) {
  const Profile profile = Read();
  ASSERT_EQ(profile.kernels.size(), 2U);
  EXPECT_EQ(profile.texts[profile.kernels[0].task_id], "1");
  EXPECT_EQ(profile.texts[profile.kernels[0].task_type], "AI_CORE");
  EXPECT_EQ(profile.texts[profile.kernels[0].shapes], "64;64");
  EXPECT_EQ(profile.kernels[1].duration_us, 10.5);
  ASSERT_EQ(profile.operator_statistics.size(), 1U);
  EXPECT_EQ(profile.operator_statistics[0].count, 2);
  EXPECT_EQ(profile.operator_statistics[0].total_us, 30.5);
  EXPECT_EQ(profile.operator_statistics[0].max_us, 20);
  EXPECT_EQ(profile.operator_statistics[0].min_us, 10.5);
}

TEST_F(ReadAscendDatabaseTest, JoinsTasksToTheirCollective) {
  const Profile profile = Read();
  ASSERT_EQ(profile.communication.size(), 1U);
  EXPECT_EQ(profile.texts[profile.communication[0].kind], "hcom_allReduce_");
  ASSERT_EQ(profile.communication_tasks.size(), 1U);
  EXPECT_EQ(profile.texts[profile.communication_tasks[0].name], "Notify_Wait");
  EXPECT_EQ(profile.communication_tasks[0].operation, profile.communication[0].id);
}

TEST_F(ReadAscendDatabaseTest, WorksOutWhatTheOverlapAnalysisWouldSay) {
  const Profile profile = Read();
  ASSERT_EQ(profile.computing.size(), 2U);
  ASSERT_EQ(profile.uncovered.size(), 1U);
  EXPECT_EQ(profile.uncovered[0].start, 1'530'000);
  EXPECT_EQ(profile.uncovered[0].end, 1'550'000);
  EXPECT_EQ(profile.uncovered[0].duration_us, 20);
  EXPECT_EQ(profile.memory_used_gb, 2);
}

TEST_F(ReadAscendDatabaseTest, PrintsTimesOfMemoryAsDoubles) {
  const Profile profile = Read();
  ASSERT_EQ(profile.allocations.size(), 2U);
  EXPECT_EQ(profile.texts[profile.allocations[0].allocated], "1700000000002009.2");
  EXPECT_EQ(profile.texts[profile.allocations[0].released], "0.0");
  EXPECT_EQ(profile.allocations[0].at, 1700000000002009250);
  EXPECT_EQ(profile.allocations[0].size_kb, 524288);
  EXPECT_TRUE(profile.allocations[0].size_is_integer);
  EXPECT_EQ(profile.allocations[1].at, 1'300'000);  // when it was enqueued
  EXPECT_EQ(profile.allocations[1].duration_us, 100);
}

TEST_F(ReadAscendDatabaseTest, ReadsOneStepOnly) {
  Needs needs = Everything();
  needs.step = 6;
  const Profile profile = Read(
      std::string(kTables) + kRows + "INSERT INTO PYTORCH_API VALUES(2500000,2600000,NULL,1,2,1);",
      needs);
  EXPECT_EQ(profile.operators.size(), 1U);
  EXPECT_TRUE(profile.kernels.empty());
  EXPECT_TRUE(profile.communication.empty());
  needs.step = 7;
  const Result<Profile> missing =
      ReadAscendDatabase(files_.folder() / "ascend_pytorch_profiler_0.db", needs);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("has no step 7; its steps: 5, 6"), std::string::npos);
}

TEST_F(ReadAscendDatabaseTest, GoesOnWithoutTablesAndColumns) {
  const Profile profile = Read(
      "CREATE TABLE STRING_IDS(id INTEGER PRIMARY KEY, value TEXT);"
      "CREATE TABLE ENUM_API_TYPE(id INTEGER, name TEXT); INSERT INTO ENUM_API_TYPE VALUES(1,'op');"
      "CREATE TABLE PYTORCH_API(startNs TEXT, endNs TEXT, name TEXT, type INTEGER);"
      "INSERT INTO PYTORCH_API VALUES('1000','2000','aten::mm',1);"
      "CREATE TABLE OP_MEMORY(name INTEGER, bytes INTEGER);");
  ASSERT_EQ(profile.operators.size(), 1U);
  EXPECT_EQ(profile.texts[profile.operators[0].name], "aten::mm");
  EXPECT_EQ(profile.operators[0].duration_us, 1);
  EXPECT_TRUE(Warns(profile, "has no table COMPUTE_TASK_INFO"));
  EXPECT_TRUE(Warns(profile, "table OP_MEMORY has no column size"));
  Needs strict = Everything();
  strict.strict = true;
  EXPECT_FALSE(ReadAscendDatabase(files_.folder() / "ascend_pytorch_profiler_0.db", strict).ok());
}

TEST_F(ReadAscendDatabaseTest, RunsNothingThatTheSchemaDefines) {
  const Profile profile = Read(std::string(kTables) +
                               "DROP TABLE PYTORCH_API;"
                               "CREATE VIEW PYTORCH_API AS WITH RECURSIVE n(startNs) AS "
                               "(SELECT 1 UNION ALL SELECT startNs + 1 FROM n) SELECT startNs, "
                               "startNs AS endNs, 1 AS name, 1 AS type FROM n;");
  EXPECT_TRUE(profile.operators.empty());
  EXPECT_TRUE(Warns(profile, "has no table PYTORCH_API"));
}

TEST_F(ReadAscendDatabaseTest, DoesNotMultiplyCallsAndConnections) {
  std::string statements = std::string(kTables) + "BEGIN;";
  for (int row = 0; row < 1000; ++row) {
    statements +=
        "INSERT INTO PYTORCH_API VALUES(1000,2000,1,1,NULL,1);"
        "INSERT INTO CONNECTION_IDS VALUES(1,3);"
        "INSERT INTO TASK VALUES(3000,4000,3," +
        std::to_string(row) + ",6);INSERT INTO COMPUTE_TASK_INFO VALUES(3," + std::to_string(row) +
        ",4,5,2);";
  }
  const Profile profile = Read(statements + "COMMIT;");
  EXPECT_LE(profile.operators.size(), 3000U);
  EXPECT_LE(profile.flows.size(), 40'000U);
}

TEST_F(ReadAscendDatabaseTest, LeavesOutRowsOfImpossibleTimes) {
  const Profile profile =
      Read(std::string(kTables) + kRows +
           "INSERT INTO PYTORCH_API VALUES(2000,1000,NULL,1,NULL,1),(-5,10,NULL,1,NULL,1);"
           "UPDATE TASK SET endNs = 0 WHERE globalTaskId = 3;");
  EXPECT_EQ(profile.operators.size(), 3U);
  EXPECT_EQ(profile.kernels.size(), 1U);
  EXPECT_TRUE(Warns(profile, "2 rows of PYTORCH_API without a usable time"));
  EXPECT_TRUE(Warns(profile, "1 row of TASK without a usable time"));
}

TEST_F(ReadAscendDatabaseTest, TheLastTimeOf64BitsIsNoTimeBeforeAll) {
  const Profile profile =
      Read(std::string(kTables) + "INSERT INTO OP_MEMORY VALUES(1,64,9223372036854775807,NULL);");
  ASSERT_EQ(profile.allocations.size(), 1U);
  EXPECT_GT(profile.allocations[0].at, INT64_MAX - 1000);
}

TEST_F(ReadAscendDatabaseTest, SurvivesDamageAnywhere) {
  const std::filesystem::path path = Written(std::string(kTables) + kRows);
  std::ifstream stream(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  const std::filesystem::path damaged = files_.folder() / "damaged.db";
  for (size_t at = 16; at < whole.size(); at += 97) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x5A);
    std::ofstream(damaged, std::ios::binary) << bytes;
    const Result<Profile> profile = ReadAscendDatabase(damaged, Everything());
    EXPECT_TRUE(profile.ok() || !profile.status().message().empty());
  }
  std::ofstream(damaged, std::ios::binary) << whole.substr(0, whole.size() / 2);
  const Result<Profile> half = ReadAscendDatabase(damaged, Everything());
  EXPECT_TRUE(!half.ok() || !half->warnings.empty());
}

TEST_F(ReadAscendDatabaseTest, RefusesWhatIsNoDatabase) {
  const std::filesystem::path text = files_.Write("some.db", "not SQLite at all, but long enough");
  EXPECT_FALSE(LooksLikeDatabase(text));
  EXPECT_FALSE(LooksLikeDatabase(files_.Write("short.db", "SQL")));
  EXPECT_TRUE(LooksLikeDatabase(Written(kTables)));
  const Result<Profile> profile = ReadAscendDatabase(text, Everything());
  ASSERT_FALSE(profile.ok());
  EXPECT_NE(profile.status().message().find("is not a SQLite database"), std::string::npos);
}

TEST_F(ReadAscendDatabaseTest, OpensPathsOfAnyCharacters) {
  const std::filesystem::path odd = files_.folder() / "a?mode=rwc #%41.db";
  std::filesystem::rename(Written(std::string(kTables) + kRows), odd);
  const Result<Profile> profile = ReadAscendDatabase(odd, Everything());
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_EQ(profile->operators.size(), 3U);
}

TEST_F(ReadAscendDatabaseTest, CutsLongNamesThatRowsNameOutOfProportion) {
  // 40 MB of names in a file of some hundred kB.
  const Profile profile = Read(std::string(kTables) + R"(
    INSERT INTO STRING_IDS VALUES(100, printf('%.20000c', 'x'));
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
      INSERT INTO PYTORCH_API SELECT 1000000 + i, 1000001 + i, NULL, 100, NULL, 1 FROM n;)");
  ASSERT_EQ(profile.operators.size(), 2000U);
  uint64_t bytes = 0;
  for (const Operator& operation : profile.operators) {
    bytes += profile.texts[operation.name].size();
  }
  const uint64_t most = 64 * std::filesystem::file_size(profile.path) + (uint64_t{16} << 20U);
  ASSERT_LT(most, uint64_t{2000} * 20000);
  EXPECT_LE(bytes, most + uint64_t{2000} * 300);
  EXPECT_EQ(profile.texts[profile.operators.front().name].size(), 20000U);
  EXPECT_EQ(profile.texts[profile.operators.back().name], std::string(256, 'x') + "...");
  EXPECT_TRUE(Warns(profile, "rows name long texts too often for its size"));
}

}  // namespace
}  // namespace msprobe::profile
