#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/config_check/launch_command.h"
#include "src/analysis/config_check/launch_script.h"
#include "src/analysis/config_check/shell_lexer.h"
#include "src/analysis/config_check/shell_variables.h"

namespace msprobe::analysis::config_check::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "word|word; word|word" of the commands, quotes gone and nothing expanded.
std::string Commands(std::string_view text) {
  const Result<ShellScript> script = LexShell(text);
  if (!script.ok()) {
    return script.status().message();
  }
  std::string result;
  for (const ShellCommand& command : (*script).commands) {
    result += result.empty() ? "" : "; ";
    std::string words;
    for (const ShellWord& word : command.words) {
      words += words.empty() ? "" : "|";
      for (const ShellSegment& segment : word.segments) {
        words += segment.text;
      }
    }
    result += words;
  }
  return result;
}

TEST(ShellLexer, SplitsCommandsAtOperatorsAndLines) {
  EXPECT_EQ(Commands("a b;c&&d||e|f\ng &\nh"), "a|b; c; d; e; f; g; h");
}

TEST(ShellLexer, TakesQuotesAway) {
  EXPECT_EQ(Commands("a 'b c' \"d  e\" f'g'\"h\" '' \"\""), "a|b c|d  e|fgh||");
  EXPECT_EQ(Commands("a $'b\\tc' \"x\\\"y\" a\\ b '\\n'"), "a|b\tc|x\"y|a b|\\n");
}

TEST(ShellLexer, KeepsAHashInsideQuotesAndWords) {
  EXPECT_EQ(Commands("a '#b' \"# c\" d#e # f"), "a|#b|# c|d#e");
}

TEST(ShellLexer, GoesOnBehindABackslash) {
  EXPECT_EQ(Commands("a \\\n  b c\\\nd \"e\\\nf\""), "a|b|cd|ef");
}

TEST(ShellLexer, ForgivesWhatStandsBehindABackslash) {
  const Result<ShellScript> script = LexShell("a \\  \n  b \\ # why\n c\n");
  ASSERT_TRUE(script.ok());
  EXPECT_EQ((*script).commands.size(), 1U);
  EXPECT_EQ((*script).commands[0].words.size(), 3U);
  ASSERT_EQ((*script).warnings.size(), 2U);
  EXPECT_THAT((*script).warnings[1], HasSubstr("line 2: text after the backslash"));
}

TEST(ShellLexer, DropsRedirectionsAndHereDocuments) {
  EXPECT_EQ(Commands("a b >x 2>&1 c </dev/null &>log d >>e"), "a|b|c|d");
  EXPECT_EQ(Commands("cat <<EOF > x\n--not 1\n'\nEOF\na\n"), "cat; a");
  EXPECT_EQ(Commands("cat <<-'END'\n\t(\n\tEND\na <<< \"b c\" d"), "cat; a|d");
  EXPECT_EQ(Commands("a > >(tee x) 12"), "a|12");
}

TEST(ShellLexer, LooksAtALongWordOnceInFrontOfManyRedirections) {
  const std::string word = std::string(500'000, '1') + "a1";
  std::string text = "c " + word;
  for (int i = 0; i < 200'000; ++i) {
    text += ">1";
  }
  EXPECT_EQ(Commands(text), "c|" + word);
}

TEST(ShellLexer, LooksThroughCompoundCommands) {
  EXPECT_EQ(Commands("if [ -z $x ]; then a; else b; fi"), "[|-z|$x|]; a; b; fi");
  EXPECT_EQ(Commands("for i in 1 2; do a $i; done"), "for|i|in|1|2; a|$i; done");
  EXPECT_EQ(Commands("run() {\n a\n}\n(b; c)"), "run; a; }; b; c");
  EXPECT_EQ(Commands("while ! a; do b; done"), "a; b; done");
}

TEST(ShellLexer, KeepsCommandSubstitutionsAsTheyAreSpelled) {
  EXPECT_EQ(Commands("a $(b \"c)\" | d) `e f` \"$(g)\" $((1 + 2))"),
            "a|$(b \"c)\" | d)|`e f`|$(g)|$((1 + 2))");
}

TEST(ShellLexer, NamesTheLineOfWhatIsNeverClosed) {
  EXPECT_EQ(Commands("a\nb 'c\nd"), "line 2: the quote ' is never closed");
  EXPECT_EQ(Commands("a\n\nb \"c"), "line 3: the quote \" is never closed");
  EXPECT_EQ(Commands("A=(b\nc"), "line 1: the ( of A is never closed");
  EXPECT_EQ(Commands("a $(b"), "line 1: ) is missing");
  EXPECT_EQ(Commands("a ${b"), "line 1: } is missing");
  EXPECT_EQ(Commands("a `b"), "line 1: the ` is never closed");
  EXPECT_THAT(Commands("a " + std::string(1000, '(')), HasSubstr("a"));
  EXPECT_THAT(Commands("a $" + std::string(1000, '(')), HasSubstr("nested brackets"));
}

// The fields of the last command.
std::vector<std::string> Expanded(std::string_view text) {
  Result<ShellScript> script = LexShell(text);
  EXPECT_TRUE(script.ok()) << script.status().message();
  ShellVariables variables;
  std::vector<std::string> result;
  for (const ShellCommand& command : (*script).commands) {
    for (const ShellAssignment& assignment : command.assignments) {
      EXPECT_TRUE(variables.Assign(assignment).ok());
    }
    const Result<std::vector<ShellField>> fields = variables.Expand(command.words);
    EXPECT_TRUE(fields.ok()) << fields.status().message();
    result.clear();
    for (const ShellField& field : *fields) {
      result.push_back(field.text);
    }
  }
  return result;
}

TEST(ShellVariables, AreSplitUnlessQuoted) {
  EXPECT_THAT(Expanded("A='x  y'; c $A \"$A\" p$A.q"),
              ElementsAre("c", "x", "y", "x  y", "px", "y.q"));
  EXPECT_THAT(Expanded("A=; c $A \"$A\" z"), ElementsAre("c", "", "z"));
}

TEST(ShellVariables, HaveDefaults) {
  EXPECT_THAT(Expanded("c ${A:-1} ${A-2} ${B:=3} $B ${A:+4}"),
              ElementsAre("c", "1", "2", "3", "3"));
  EXPECT_THAT(Expanded("A=x; c ${A:-1} ${A:+4} ${A:?needed}"), ElementsAre("c", "x", "4", "x"));
  EXPECT_THAT(Expanded("A=; c \"${A:-1}\" \"${A-2}\""), ElementsAre("c", "1", ""));
  EXPECT_THAT(Expanded("c ${A:-${B:-${C:-x y}}} \"${A:-${B:-p q}}\""),
              ElementsAre("c", "x", "y", "p q"));
}

TEST(ShellVariables, StayAsTheyAreSpelledWhenUnknown) {
  EXPECT_THAT(Expanded("c $A ${B} \"$C/x\" ${#D} ${E%.*} $1 $@ \"$@\" $?"),
              ElementsAre("c", "$A", "${B}", "$C/x", "${#D}", "${E%.*}", "$1", "$?"));
}

TEST(ShellVariables, AreMadeOfEachOtherInTheOrderOfTheScript) {
  EXPECT_THAT(Expanded("A=1\nB=\"$A 2\"\nA=3\nB+=\" $A\"\nc $B"), ElementsAre("c", "1", "2", "3"));
  EXPECT_THAT(Expanded("export A=1 B='x y'; local C=$A; c $C \"$B\""),
              ElementsAre("c", "1", "x y"));
}

TEST(ShellVariables, MayBeArrays) {
  EXPECT_THAT(Expanded("A=(\n --x 1 # why\n \"p q\"\n)\nA+=(z)\nc ${A[@]} \"${A[@]}\" $A ${A[3]}"),
              ElementsAre("c", "--x", "1", "p", "q", "z", "--x", "1", "p q", "z", "--x", "z"));
  EXPECT_THAT(Expanded("A=()\nc \"${A[@]}\" z"), ElementsAre("c", "z"));
  EXPECT_THAT(Expanded("declare -a A=(x y); c \"${A[*]}\""), ElementsAre("c", "x", "y"));
}

TEST(ShellVariables, CannotGrowBeyondMeasure) {
  std::string text = "A=xxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) {
    text += "A=$A$A\n";
  }
  const Result<LaunchScript> script = ReadLaunchScript(text);
  ASSERT_FALSE(script.ok());
  EXPECT_THAT(script.status().message(), HasSubstr("expand to more than"));
}

TEST(ShellVariables, AreWorkEvenWhereTheyExpandToNothing) {
  std::string text = "c ";
  for (int i = 0; i < 15; ++i) {
    text += fmt::format("${{{}:=", static_cast<char>('A' + i));
  }
  for (int i = 0; i < 2000; ++i) {
    text += "${P:=}";
  }
  const Result<LaunchScript> script = ReadLaunchScript(text + std::string(15, '}'));
  ASSERT_FALSE(script.ok());
  EXPECT_THAT(script.status().message(), HasSubstr("expand to more than"));
}

// "name=value name" of the parameters; without value: true.
std::string ReadShell(std::string_view text) {
  const Result<LaunchScript> script = ReadLaunchScript(text);
  if (!script.ok()) {
    return script.status().message();
  }
  std::string result;
  for (const auto& [name, value] : (*script).parameters.object().members) {
    result += fmt::format("{}{}{}", result.empty() ? "" : " ", name,
                          value.kind == json::ConfigKind::kText ? "=" + value.text : "");
  }
  return result;
}

TEST(LaunchScript, KnowsTheLaunchers) {
  for (const char* launcher :
       {"torchrun --nnodes 2", "python -m torch.distributed.run --nnodes 2",
        "python3.10 -m torch.distributed.launch --nnodes=2", "deepspeed --nnodes 2",
        "accelerate launch --nnodes 2", "msrun --nnodes=2", "/opt/conda/bin/torchrun --nnodes 2"}) {
    EXPECT_EQ(ReadShell(fmt::format("{} train.py --lr 1", launcher)), "nnodes=2 lr=1") << launcher;
  }
  for (const char* launcher :
       {"python", "python3", "python3.11 -u", "/usr/bin/python3 -W ignore"}) {
    EXPECT_EQ(ReadShell(fmt::format("{} train.py --lr 1", launcher)), "lr=1") << launcher;
    EXPECT_EQ(ReadShell(fmt::format("{} -m pkg.train --lr 1", launcher)), "lr=1") << launcher;
  }
}

TEST(LaunchScript, LooksBehindWrappers) {
  for (const char* wrapper :
       {"sudo -E", "env A=1 B=2", "A=1", "nohup", "srun --ntasks 8 -N 2", "mpirun -np 8 -x A",
        "numactl --cpunodebind=0", "CUDA_VISIBLE_DEVICES=0,1 nohup", "timeout 3600", "$PREFIX",
        "exec", "time", "docker exec -it box", "./set_env.sh"}) {
    EXPECT_EQ(ReadShell(fmt::format("{} python train.py --lr 1", wrapper)), "lr=1") << wrapper;
  }
}

TEST(LaunchScript, ReadsScriptsInsideOfScripts) {
  EXPECT_EQ(ReadShell("srun bash -c \"torchrun t.py --lr 1\""), "lr=1");
  EXPECT_EQ(ReadShell("CMD=\"torchrun t.py --lr 1\"\neval $CMD"), "lr=1");
  EXPECT_EQ(ReadShell("CMD=\"torchrun t.py --lr 1\"\n$CMD"), "lr=1");
  EXPECT_EQ(ReadShell("bash -lc 'cd x && torchrun t.py --lr 1 2>&1 | tee log'"), "lr=1");
}

TEST(LaunchScript, IgnoresCommandsThatTrainNothing) {
  EXPECT_EQ(ReadShell("if x; then echo torchrun t.py --lr 1; fi"), "");
  EXPECT_EQ(ReadShell("pip install --upgrade torch\npython -m pip install --user x"), "");
  EXPECT_EQ(ReadShell("python -c 'print(1)' --x 1\npython setup.py install --user"), "");
  EXPECT_EQ(ReadShell("pkill -f python\nwhich python\nps aux | grep python --color"), "");
  // The preparation in front of a distributed launch is not the training.
  EXPECT_EQ(ReadShell("python prepare.py --input x\ntorchrun t.py --lr 1"), "lr=1");
}

TEST(LaunchScript, TellsTheLaunchersOptionsFromTheTrainings) {
  EXPECT_EQ(ReadShell("torchrun --standalone train.py --x"), "standalone x");
  EXPECT_EQ(ReadShell("torchrun --no-python ./train --x 1"), "no-python x=1");
  EXPECT_EQ(ReadShell("torchrun --nproc_per_node 8 -m pkg.train --x 1"), "nproc_per_node=8 x=1");
  EXPECT_EQ(ReadShell("deepspeed --num_gpus 8 train.py --deepspeed --lr 1"),
            "num_gpus=8 deepspeed lr=1");
}

TEST(LaunchScript, TakesValuesInEverySpelling) {
  EXPECT_EQ(ReadShell("python t.py --a=1 --b 2 --c --no-d --e -1 --f -1e-5 --g=x=y"),
            "a=1 b=2 c no-d e=-1 f=-1e-5 g=x=y");
  EXPECT_EQ(ReadShell("python t.py --a \"x\" --b='y' --c \"\" -s 4 --d"), "a=x b=y c= s=4 d");
  EXPECT_EQ(ReadShell("python t.py --model.lr=1e-3 --url http://a#frag --q '#1'"),
            "model.lr=1e-3 url=http://a#frag q=#1");
  EXPECT_EQ(ReadShell("python t.py config.yaml --a 1 --a 2"), "a=2");
}

TEST(LaunchScript, PutsSeveralValuesIntoOneText) {
  const char* expected = "p=\"0.5 a 0.5 b\" q=1";
  EXPECT_EQ(ReadShell("python t.py --p 0.5 a 0.5 b --q 1"), expected);
  EXPECT_EQ(ReadShell("python t.py --p '0.5 a 0.5 b' --q 1"), expected);
  EXPECT_EQ(ReadShell("P='0.5 a 0.5 b'\npython t.py --p $P --q 1"), expected);
  EXPECT_EQ(ReadShell("P=(0.5 a 0.5 b)\npython t.py --p \"${P[@]}\" --q 1"), expected);
}

TEST(LaunchScript, TakesNoUnknownForAFurtherValue) {
  EXPECT_EQ(ReadShell("python t.py --a 1 $EXTRA --b $UNDEFINED $(more)"), "a=1 b=$UNDEFINED");
  EXPECT_EQ(ReadShell("python t.py --a 1 $@"), "a=1");
}

TEST(LaunchScript, ReadsSettingsWithoutDashes) {
  EXPECT_EQ(ReadShell("python t.py --config-name x trainer.lr=1e-3 +model.depth=2 data/set=y"),
            "config-name=x trainer.lr=1e-3 model.depth=2 data/set=y");
  EXPECT_EQ(ReadShell("python t.py --set a=1 b=2 --x"), "set=\"a=1 b=2\" x");
}

TEST(LaunchScript, LooksAtALongFirstValueOnce) {
  std::string text = "python t.py --set " + std::string(400'000, 'a') + "=1";
  for (int i = 0; i < 100'000; ++i) {
    text += " b=1";
  }
  EXPECT_THAT(ReadShell(text), HasSubstr("=1 b=1 b=1"));
}

TEST(LaunchScript, FollowsBlocksInAnyOrder) {
  EXPECT_EQ(
      ReadShell("TP=2\nGPT_ARGS=\"\n  --tp ${TP} \\\n  --bf16\n\"\nALL_ARGS=\"$GPT_ARGS --x 1\"\n"
                "torchrun t.py ${ALL_ARGS}"),
      "tp=2 bf16 x=1");
  EXPECT_EQ(
      ReadShell(
          "A_VERY_LONG_NAME_INDEED_ARGS='--a 1'\ntorchrun t.py $A_VERY_LONG_NAME_INDEED_ARGS"),
      "a=1");
  EXPECT_EQ(
      ReadShell("ARGS=(--a 1)\nif x; then ARGS+=(--b \"2 3\"); fi\ntorchrun t.py \"${ARGS[@]}\""),
      "a=1 b=\"2 3\"");
}

TEST(LaunchScript, ReadsOnWhereABackslashIsMissing) {
  const Result<LaunchScript> script =
      ReadLaunchScript("if x; then\ntorchrun t.py --a 1 \\\n # --old 5 \\\n --b 2\n--c 3\nfi\n");
  ASSERT_TRUE(script.ok());
  EXPECT_EQ((*script).parameters.size(), 3U);
  EXPECT_THAT((*script).warnings,
              ElementsAre(HasSubstr("line 4: begins with an option"), HasSubstr("line 5")));
}

TEST(LaunchScript, EndsTheLaunchWhereTheShellDoes) {
  EXPECT_EQ(ReadShell("torchrun t.py --a 1 --flag\nwait"), "a=1 flag");
  EXPECT_EQ(ReadShell("torchrun t.py --flag | tee log --after 1"), "flag");
  EXPECT_EQ(ReadShell("if x; then\ntorchrun t.py --flag\necho done --x 1\nfi"), "flag");
  EXPECT_EQ(ReadShell("torchrun t.py --flag > log 2>&1 &"), "flag");
}

TEST(LaunchScript, HoldsWhatThePythonToolFindsInAPlainScript) {
  EXPECT_EQ(ReadShell("torchrun t.py --a 1\necho done --x 1"), "a=1 x=1");
  // Two options on one line lose the second one there.
  EXPECT_EQ(ReadShell("mytorchrun t.py --a --b --c 1"), "a c=1");
}

TEST(LaunchScript, RunsNothing) {
  const std::string path = ::testing::TempDir() + "/msprobe_must_not_exist";
  EXPECT_EQ(
      ReadShell(fmt::format("A=$(touch {0})\n: `touch {0}`\ntouch {0}\npython t.py --a $A", path)),
      fmt::format("a=\"$(touch {})\"", path));
  EXPECT_FALSE(std::ifstream(path).good());
}

Parameters Compat(std::string_view text) { return ReadLaunchScriptAsPythonTool(text); }

TEST(LaunchScriptAsPythonTool, KnowsThreeLaunchersOnly) {
  EXPECT_EQ(Compat("python train.py --a 1").size(), 0U);
  EXPECT_EQ(Compat("deepspeed train.py --a 1").size(), 0U);
  EXPECT_EQ(Compat("msrun --a 1").size(), 1U);
  EXPECT_EQ(Compat("python3 -m torch.distributed.launch --a 1").size(), 1U);
  EXPECT_EQ(Compat("torchrun").size(), 0U);
}

TEST(LaunchScriptAsPythonTool, UsesTheLastTwentyCharactersOfABlockName) {
  const std::string name(21, 'a');
  EXPECT_EQ(Compat(fmt::format("{0}_ARGS=\"--x 1\"\ntorchrun ${0}_ARGS", name)).size(), 0U);
  EXPECT_EQ(Compat(fmt::format("{0}_ARGS=\"--x 1\"\ntorchrun ${0}_ARGS", name.substr(1))).size(),
            1U);
}

TEST(LaunchScriptAsPythonTool, StaysQuickOnHostileScripts) {
  std::string text = "torchrun";
  for (int i = 0; i < 2000; ++i) {
    text += fmt::format(" $B{}_ARGS --x{} $Y", i, i);
  }
  for (int i = 0; i < 2000; ++i) {
    text += fmt::format("\nB{}_ARGS=\"$B{}_ARGS $B{}_ARGS --y\"", i, i + 1, i + 1);
  }
  EXPECT_GT(Compat(text).size(), 0U);
}

}  // namespace
}  // namespace msprobe::analysis::config_check::internal
