#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/config_check/launch_command.h"
#include "src/analysis/config_check/launch_script.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/analysis/config_check/shell_syntax.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void AddCommands(const ShellList& list, std::string& result) {
  for (const ShellNode& node : list) {
    std::string words;
    for (const ShellWord& word : node.words) {
      words += (words.empty() ? "" : "|") + word.Spelling();
    }
    if (!words.empty() || node.children.empty()) {
      result += (result.empty() ? "" : "; ") + words;
    }
    AddCommands(node.children, result);
    for (const ShellCaseItem& item : node.items) {
      AddCommands(item.body, result);
    }
  }
}

// "word|word; word|word" of the commands, quotes gone and nothing expanded.
std::string Commands(std::string_view text) {
  const Result<ShellScript> script = ParseShell(text);
  if (!script.ok()) {
    return script.status().message();
  }
  std::string result;
  AddCommands((*script).commands, result);
  return result;
}

TEST(ShellSyntax, SplitsCommandsAtOperatorsAndLines) {
  EXPECT_EQ(Commands("a b;c&&d||e|f\ng &\nh"), "a|b; c; d; e; f; g; h");
}

TEST(ShellSyntax, TakesQuotesAway) {
  EXPECT_EQ(Commands("a 'b c' \"d  e\" f'g'\"h\" '' \"\""), "a|b c|d  e|fgh||");
  EXPECT_EQ(Commands("a $'b\\tc' \"x\\\"y\" a\\ b '\\n'"), "a|b\tc|x\"y|a b|\\n");
}

TEST(ShellSyntax, KeepsAHashInsideQuotesAndWords) {
  EXPECT_EQ(Commands("a '#b' \"# c\" d#e # f"), "a|#b|# c|d#e");
}

TEST(ShellSyntax, GoesOnBehindABackslash) {
  EXPECT_EQ(Commands("a \\\n  b c\\\nd \"e\\\nf\""), "a|b|cd|ef");
}

TEST(ShellSyntax, ForgivesWhatStandsBehindABackslash) {
  const Result<ShellScript> script = ParseShell("a \\  \n  b \\ # why\n c\n");
  ASSERT_TRUE(script.ok());
  EXPECT_EQ((*script).commands.size(), 1U);
  EXPECT_EQ((*script).commands[0].words.size(), 3U);
  ASSERT_EQ((*script).warnings.size(), 2U);
  EXPECT_THAT((*script).warnings[1], HasSubstr("line 2: text after the backslash"));
}

TEST(ShellSyntax, DropsRedirectionsAndHereDocuments) {
  EXPECT_EQ(Commands("a b >x 2>&1 c </dev/null &>log d >>e"), "a|b|c|d");
  EXPECT_EQ(Commands("cat <<EOF > x\n--not 1\n'\nEOF\na\n"), "cat; a");
  EXPECT_EQ(Commands("cat <<-'END'\n\t(\n\tEND\na <<< \"b c\" d"), "cat; a|d");
  EXPECT_EQ(Commands("a > >(tee x) 12"), "a|12");
}

TEST(ShellSyntax, LooksAtALongWordOnceInFrontOfManyRedirections) {
  const std::string word = std::string(500'000, '1') + "a1";
  std::string text = "c " + word;
  for (int i = 0; i < 200'000; ++i) {
    text += ">1";
  }
  EXPECT_EQ(Commands(text), "c|" + word);
}

TEST(ShellSyntax, LooksThroughCompoundCommands) {
  EXPECT_EQ(Commands("if [ -z $x ]; then a; elif c; then d; else b; fi"), "[|-z|$x|]; a; c; d; b");
  EXPECT_EQ(Commands("for i in 1 2; do a $i; done"), "1|2; a|$i");
  EXPECT_EQ(Commands("run() {\n a\n}\n(b; c)"), "a; b; c");
  EXPECT_EQ(Commands("while ! a; do b; done"), "a; b");
  EXPECT_EQ(Commands("case $x in a|b) c ;; (*) d; e ;; esac; f"), "$x; c; d; e; f");
  EXPECT_EQ(Commands("[[ a == b* && ( $c < d ) ]] || e"), "a|==|b*|&&|(|$c|<|d|); e");
}

TEST(ShellSyntax, KeepsCommandSubstitutionsAsTheyAreSpelled) {
  EXPECT_EQ(Commands("a $(b \"c)\" | d) `e f` \"$(g)\" $((1 + 2))"),
            "a|$(b \"c)\" | d)|`e f`|$(g)|$((1 + 2))");
}

TEST(ShellSyntax, NamesTheLineOfWhatIsNeverClosed) {
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
  Result<ShellScript> script = ParseShell(text);
  EXPECT_TRUE(script.ok()) << script.status().message();
  const ScriptLookup none = [](std::string_view) { return nullptr; };
  ShellWork work;
  ShellRun run(none, {}, work);
  ShellNode last = std::move((*script).commands.back());
  (*script).commands.pop_back();
  EXPECT_TRUE(run.Run(*script).ok());
  const Result<std::vector<ShellField>> fields = run.Expand(last.words);
  EXPECT_TRUE(fields.ok()) << fields.status().message();
  std::vector<std::string> result;
  for (const ShellField& field : *fields) {
    result.push_back(run.Spelled(field.text));
  }
  return result;
}

TEST(ShellRun, AreSplitUnlessQuoted) {
  EXPECT_THAT(Expanded("A='x  y'; c $A \"$A\" p$A.q"),
              ElementsAre("c", "x", "y", "x  y", "px", "y.q"));
  EXPECT_THAT(Expanded("A=; c $A \"$A\" z"), ElementsAre("c", "", "z"));
}

TEST(ShellRun, HaveDefaults) {
  EXPECT_THAT(Expanded("c ${A:-1} ${A-2} ${B:=3} $B ${A:+4}"),
              ElementsAre("c", "1", "2", "3", "3"));
  EXPECT_THAT(Expanded("A=x; c ${A:-1} ${A:+4} ${A:?needed}"), ElementsAre("c", "x", "4", "x"));
  EXPECT_THAT(Expanded("A=; c \"${A:-1}\" \"${A-2}\""), ElementsAre("c", "1", ""));
  EXPECT_THAT(Expanded("c ${A:-${B:-${C:-x y}}} \"${A:-${B:-p q}}\""),
              ElementsAre("c", "x", "y", "p q"));
}

TEST(ShellRun, StayAsTheyAreSpelledWhenUnknown) {
  EXPECT_THAT(Expanded("c $A ${B} \"$C/x\" ${#D} ${E%.*} $1 $@ \"$@\" $!"),
              ElementsAre("c", "$A", "${B}", "$C/x", "${#D}", "${E%.*}", "$1", "$!"));
}

TEST(ShellRun, AreMadeOfEachOtherInTheOrderOfTheScript) {
  EXPECT_THAT(Expanded("A=1\nB=\"$A 2\"\nA=3\nB+=\" $A\"\nc $B"), ElementsAre("c", "1", "2", "3"));
  EXPECT_THAT(Expanded("export A=1 B='x y'; local C=$A; c $C \"$B\""),
              ElementsAre("c", "1", "x y"));
}

TEST(ShellRun, MayBeArrays) {
  EXPECT_THAT(Expanded("A=(\n --x 1 # why\n \"p q\"\n)\nA+=(z)\nc ${A[@]} \"${A[@]}\" $A ${A[3]}"),
              ElementsAre("c", "--x", "1", "p", "q", "z", "--x", "1", "p q", "z", "--x", "z"));
  EXPECT_THAT(Expanded("A=()\nc \"${A[@]}\" z"), ElementsAre("c", "z"));
  EXPECT_THAT(Expanded("declare -a A=(x y); c \"${A[*]}\" ${A[*]}"),
              ElementsAre("c", "x y", "x", "y"));
}

TEST(ShellRun, CannotGrowBeyondMeasure) {
  std::string text = "A=xxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) {
    text += "A=$A$A\n";
  }
  const Result<LaunchScript> script = ReadLaunchScript(text);
  ASSERT_FALSE(script.ok());
  EXPECT_THAT(script.status().message(), HasSubstr("expand to more than"));
}

TEST(ShellRun, AreWorkEvenWhereTheyExpandToNothing) {
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

std::string ValueText(const json::Json& value) {
  if (const json::Json* values = ValuesOf(value)) {
    std::string text;
    for (const json::Json& one : *values) {
      text += (text.empty() ? "" : "|") + (one.is_string() ? json::TextOf(one)
                                           : one.is_null() ? std::string("none")
                                                           : std::string("true"));
    }
    return "=" + text;
  }
  return value.is_string() ? "=" + json::TextOf(value) : "";
}

// "name=value name" of the parameters; without value: true; undecided: name=one|other.
std::string ReadShell(std::string_view text) {
  const Result<LaunchScript> script = ReadLaunchScript(text);
  if (!script.ok()) {
    return script.status().message();
  }
  std::string result;
  for (const auto& [name, value] : (*script).parameters.object().items()) {
    result += (result.empty() ? "" : " ") + name + ValueText(value);
  }
  return result;
}

// The same of the environment.
std::string ReadEnvironment(std::string_view text) {
  const Result<LaunchScript> script = ReadLaunchScript(text);
  if (!script.ok()) {
    return script.status().message();
  }
  std::string result;
  for (const LaunchVariable& variable : (*script).environment) {
    result += (result.empty() ? "" : " ") + variable.name + ValueText(variable.value);
  }
  return result;
}

std::vector<std::string> WarningsOf(std::string_view text) {
  const Result<LaunchScript> script = ReadLaunchScript(text);
  return script.ok() ? (*script).warnings : std::vector<std::string>{script.status().message()};
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
      "a=1 b=\"2 3\"|none");
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

TEST(LaunchScript, TakesTheBranchThatIsKnown) {
  const char* script =
      "S={}\nif [ $S = 7B ]; then L=32; elif [[ $S == 70B ]]; then L=80; else exit 1; fi\n"
      "torchrun t.py --layers $L";
  EXPECT_EQ(ReadShell(base::ReplaceAll(script, "{}", "7B")), "layers=32");
  EXPECT_EQ(ReadShell(base::ReplaceAll(script, "{}", "70B")), "layers=80");
  EXPECT_EQ(ReadShell(base::ReplaceAll(script, "{}", "1B")), "");
  EXPECT_EQ(ReadShell("S=b2\ncase $S in a*) L=1;; b?) L=2;; *) L=3; esac\ntorchrun t.py --l $L"),
            "l=2");
  EXPECT_EQ(ReadShell("N=4\nif ((N > 3)) && [ $N -lt 5 ]; then L=1; else L=2; fi\n"
                      "torchrun t.py --l $L"),
            "l=1");
}

TEST(LaunchScript, RecordsAllBranchesThatCannotBeDecided) {
  const char* script =
      "if [ \"$1\" = 7B ]; then L=32; H=4; elif [ \"$1\" = 70B ]; then L=80; H=8; else exit; fi\n"
      "torchrun t.py --l $L --h $H --lr 1";
  EXPECT_EQ(ReadShell(script), "l=32|80 h=4|8 lr=1");
  EXPECT_THAT(WarningsOf(script), Contains(HasSubstr("all are recorded: l, h")));
  EXPECT_EQ(ReadShell("case $X in a) L=1;; b) L=2;; esac\ntorchrun t.py --l $L"), "l=1|2|$L");
  EXPECT_EQ(ReadShell("[ \"$FP16\" = 1 ] && A=--fp16\ntorchrun t.py $A --lr 1"),
            "fp16=true|none lr=1");
  // An option that is only there with what a variable has, and a default that a variable replaces.
  EXPECT_EQ(ReadShell("L=$(ls out)\nif [ -n \"$L\" ]; then R=\"--resume out/$L\"; fi\n"
                      "torchrun t.py --lr 1 $R"),
            "lr=1 resume=none|\"out/$(ls out)\"");
  EXPECT_EQ(ReadShell("if [ -z \"$LR\" ]; then LR=1; fi\ntorchrun t.py --lr $LR"), "lr=1");
  // A branch that only ends the script starts no training.
  EXPECT_EQ(ReadShell("if [ $# -lt 1 ]; then echo usage; exit 1; fi\ntorchrun t.py --lr 1"),
            "lr=1");
  // One condition is decided once.
  EXPECT_EQ(
      ReadShell("if [ $F = 1 ]; then A=1; else A=2; fi\nif [ $F = 1 ]; then B=1; else B=2; fi\n"
                "torchrun t.py --same $([ $A = $B ] && echo yes || echo no)"),
      "same=yes");
}

TEST(LaunchScript, NeverTakesAnArgumentOfTheScriptForAValue) {
  EXPECT_EQ(ReadShell("torchrun t.py --lr $1 --out runs/$2/x --bs 8"), "bs=8");
  EXPECT_THAT(WarningsOf("torchrun t.py --lr $1 --bs 8"), ElementsAre(HasSubstr("about lr")));
  EXPECT_EQ(ReadShell("torchrun t.py --lr ${1:-5}"), "lr=5");
  EXPECT_EQ(ReadShell("if [ -z \"$1\" ]; then S=7B; else S=$1; fi\ntorchrun t.py --s $S"), "s=7B");
  EXPECT_EQ(ReadShell("f() { torchrun t.py --lr $1 \"${@:2}\"; }\nf 5 --bs 8"), "lr=5 bs=8");
  EXPECT_EQ(ReadShell("set -- 7 8\nshift\ntorchrun t.py --lr $1"), "lr=8");
}

TEST(LaunchScript, RecordsEveryValueOfSeveralTrainings) {
  EXPECT_EQ(ReadShell("for lr in 1 2; do python t.py --lr $lr --bs 8; done"), "lr=1|2 bs=8");
  EXPECT_EQ(ReadShell("python t.py --lr 1\npython t.py --lr 2 --bf16"), "lr=1|2 bf16=none|true");
  EXPECT_EQ(ReadShell("python a.py --x 1\npython b.py --y 2"), "x=1 y=2");
}

TEST(LaunchScript, FollowsWhatBashComputes) {
  EXPECT_EQ(ReadShell("read -r -d '' A <<EOF\nt.py \\\n --lr $((2 * 3))\nEOF\ntorchrun $A"),
            "lr=6");
  EXPECT_EQ(ReadShell("A=$(cat <<'EOF'\n--lr 1 --note it's\nEOF\n)\ntorchrun t.py $A"),
            "lr=1 note=it's");
  EXPECT_EQ(ReadShell("T=1\ntorchrun t.py --a 1 $([ $T -gt 1 ] && echo --sp) --b 2"), "a=1 b=2");
  EXPECT_EQ(ReadShell("declare -A L=([x]=1 [y]=2)\nK=y\ntorchrun t.py --l ${L[$K]}"), "l=2");
  EXPECT_EQ(ReadShell("M=a/B-c\ntorchrun t.py --m ${M##*/} --n ${M%%/*} --o ${M/B/X} --p ${M,,}"),
            "m=B-c n=a o=a/X-c p=a/b-c");
  EXPECT_EQ(ReadShell("python w.py --x \"a=b\" -- rest --y 1"), "x=a=b y=1");
  EXPECT_EQ(ReadShell("C=<Specify path>\ntorchrun t.py --load $C --lr 1"),
            "load=\"<Specify path>\" lr=1");
}

TEST(LaunchScript, KnowsThePrograms) {
  for (const char* program :
       {"ray job submit --address=x --runtime-env-json='{}' -- python3 t.py", "swift sft",
        "megatron pt", "axolotl train c.yml", "$PYTHON -m pkg.t", "srun -N 2 $PYTHON t.py",
        "nohup python -u -m pkg.t", "llamafactory-cli train c.yaml", "numactl -m 0 python t.py"}) {
    EXPECT_THAT(ReadShell(fmt::format("{} --lr 1", program)), HasSubstr("lr=1")) << program;
  }
  EXPECT_EQ(ReadShell("ray job submit -- python3 -m m.main a.lr=1 +b.c=2"), "a.lr=1 b.c=2");
}

TEST(LaunchScript, RecordsTheEnvironmentThatItSets) {
  EXPECT_EQ(ReadEnvironment("export A=1 B\nC=2\nD=3 python t.py\nE=4"), "A=1 D=3");
  EXPECT_EQ(ReadEnvironment("A=1\nexport A\nA=2\nenv B=3 mpirun -x C=4 python t.py"),
            "A=2 B=3 C=4");
  EXPECT_EQ(ReadEnvironment("if [ $X = 1 ]; then export A=Ring; else export A=Tree; fi\n"
                            "python t.py"),
            "A=Ring|Tree");
  EXPECT_EQ(ReadEnvironment("export A=1\nunset A\nset -a\nB=2\nset +a\npython t.py"), "B=2");
  EXPECT_EQ(ReadEnvironment("J='{\"env_vars\": {\"A\": \"1\"}}'\n"
                            "ray job submit --runtime-env-json=\"$J\" -- python t.py"),
            "A=1");
}

TEST(LaunchScript, ReadsOtherScriptsOnlyWhereTheyAreGiven) {
  const std::string common = "LR=5\nexport A=1\n";
  const ScriptLookup lookup = [&common](std::string_view name) {
    return name == "common.sh" ? &common : nullptr;
  };
  const std::string text = "LR=1\n. $(dirname $0)/common.sh\ntorchrun t.py --lr $LR --bs 2";
  const Result<LaunchScript> given = ReadLaunchScript(text, lookup);
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(json::TextOf(*(*given).parameters.Find("lr")), "5");
  EXPECT_THAT((*given).read_scripts, ElementsAre("common.sh"));
  // It may change what stands in front of it.
  EXPECT_EQ(ReadShell(text), "lr=1|$LR bs=2");
  EXPECT_THAT(WarningsOf(text), Contains(HasSubstr("common.sh is not read")));
}

TEST(LaunchScript, HasLimits) {
  EXPECT_THAT(WarningsOf("i=0\nwhile true; do i=$((i+1)); done\npython t.py --i $i"),
              Contains(HasSubstr("rounds")));
  EXPECT_THAT(ReadShell("f() { f; }\nf\npython t.py"), HasSubstr("inside of each other"));
  std::string many;
  for (int i = 0; i < 40; ++i) {
    many += fmt::format("[ \"$V{}\" = 1 ] && A{}=1\n", i, i);
  }
  EXPECT_THAT(WarningsOf(many + "python t.py --lr 1 --a ${A1:-0}"),
              Contains(HasSubstr("values may be missing")));
  EXPECT_THAT(ReadShell("for a in {1..1000}; do for b in {1..1000}; do for c in {1..1000}; do\n"
                        "x=$a; done; done; done\npython t.py --lr 1"),
              HasSubstr("more than"));
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
