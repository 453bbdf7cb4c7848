"""Launch scripts as other people write them, small: each with the arguments and variables that it is run with in bash. What config_check records of a
script must be right for all of them, or be marked as undecided.

A script is (name, text) or (name, text, variants); a variant is a list of arguments, with NAME=value in front of them for the environment.
The texts are made up. `others` are files beside the scripts, which they source or run."""
import random

OTHERS = {
    "common.sh": 'LR=2e-5\nexport NCCL_ALGO=Tree\nwarm() { echo --lr-warmup-steps "$1"; }\n',
    "inner.sh": 'SIZE=$1\nshift\ntorchrun --nnodes 1 train.py --size $SIZE "$@" --seed ${SEED:-1}\n',
}

SCRIPTS = [
    # What starts a training
    ("plain", "python3 train.py --lr 1e-3 --bf16 --bs=8\n"),
    ("unbuffered", "python -u -m pkg.train --lr 1e-3 --epochs 3\n"),
    ("python_variable", "PYTHON=python3\n$PYTHON -m pkg.train --lr 1e-3\n"),
    ("python_default", "${PYTHON:-python} -m pkg.train --lr 1e-3\n"),
    ("python_by_if", "if command -v python3 >/dev/null 2>&1; then PY=python3; else PY=python; fi\n$PY train.py --lr 1e-3 --bs 4\n"),
    ("torchrun", "GPUS=8\ntorchrun --nproc_per_node $GPUS --nnodes=${NNODES:-1} train.py --lr 1e-3 --tp $((GPUS / 2))\n"),
    ("distributed_run", "python3 -m torch.distributed.run --nproc_per_node=8 train.py --lr 1e-3\n"),
    ("accelerate", "accelerate launch --config_file zero3.yaml --num_processes 8 sft.py --lr 1e-5 --gradient_checkpointing\n"),
    ("deepspeed", "deepspeed --include localhost:0,1 --master_port 29501 train.py --deepspeed ds.json --lr 1e-5\n"),
    ("deepspeed_module", "deepspeed --module pkg.cli.train_sft --max_len 2048 --lr 5e-6 --flash_attn\n"),
    ("swift", "NPROC_PER_NODE=8 swift sft --model some/model --learning_rate 1e-4 --lora_rank 8 --target_modules all-linear\n"),
    ("megatron", "NPROC_PER_NODE=4 \\\nmegatron sft \\\n    --load some/mcore \\\n    --dataset 'a#500' 'b#500' \\\n    --lr 1e-5 \\\n    --tensor_model_parallel_size 2\n"),
    ("axolotl", "axolotl train config.yml --learning-rate 1e-4 --micro-batch-size 2\n"),
    ("llamafactory", "llamafactory-cli train config.yaml learning_rate=1e-5 logging_steps=1\n"),
    ("trl", "trl sft --model_name_or_path m --learning_rate 2e-5 --packing\n"),
    ("ray", 'ray job submit --address="http://127.0.0.1:8265" -- python3 train.py --lr 1e-6 --train-iters 100\n'),
    ("ray_runtime", 'RUNTIME_ENV_JSON="{\n  \\"env_vars\\": {\n    \\"NCCL_ALGO\\": \\"Ring\\",\n    \\"PYTHONPATH\\": \\"/data/x/\\"\n  }\n}"\n'
                    'ray job submit --address="http://127.0.0.1:8265" \\\n   --runtime-env-json="${RUNTIME_ENV_JSON}" \\\n   -- python3 train.py \\\n   --actor-num-nodes 1 --lr 1e-6\n'),
    ("ray_overrides", "ray job submit --no-wait -- python3 -m pkg.main algorithm.gamma=0.9 +trainer.new=1 actor.optim.lr=1e-6\n"),
    ("ray_arrays", 'ARGS=(--lr 1e-6 --eps 1e-8)\nPERF=(\n   --tp 2   # two\n   --sequence-parallel\n)\nray job submit -- python3 train.py ${ARGS[@]} ${PERF[@]} "${NONE[@]}"\n'),
    ("nohup", "nohup python3 train.py --lr 1e-3 > log.txt 2>&1 &\n"),
    ("time", "time torchrun train.py --lr 1e-3\n"),
    ("exec", "set -ex\nexec python3 train.py --lr 1e-3 --resume \"\"\n"),
    ("env", "env NCCL_ALGO=Ring OMP_NUM_THREADS=4 python3 train.py --lr 1e-3\n"),
    ("srun", "srun --ntasks=8 python3 -u train.py --lr 1e-3 --tag \"a b\"\n"),
    ("mpirun", "mpirun -np 8 -x NCCL_ALGO=Ring python3 train.py --lr 1e-3\n"),
    ("numactl", "numactl --cpunodebind=0 --membind=0 python3 train.py --lr 1e-3\n"),
    ("bash_c", "LR=1e-3\nbash -c \"torchrun train.py --lr $LR --bs 8 2>&1 | tee log\"\n"),
    ("eval", "CMD=\"torchrun train.py\"\nCMD+=\" --lr 1e-3 --name 'a b'\"\neval $CMD\n"),
    ("command_in_variable", "CMD=\"torchrun --nnodes 1 train.py --lr 1e-3\"\necho $CMD\n$CMD --bs 8\n"),
    ("launcher_if", "if [ -z \"$SLURM_JOB_ID\" ]; then\n  LAUNCH=\"torchrun --nproc_per_node 8\"\nelse\n  LAUNCH=\"srun python3\"\nfi\n$LAUNCH train.py --lr 1e-3\n", [[], ["SLURM_JOB_ID=7"]]),
    ("subshell", "(\n  cd work || exit 1\n  LR=5\n  torchrun train.py --lr $LR\n)\n"),
    ("pipe", "torchrun train.py --lr 1e-3 --bf16 2>&1 | tee -a log.txt\n"),
    ("setup_and_train", "python3 prepare.py --input x\ntorchrun train.py --lr 1e-3\n"),
    # Here-documents
    ("heredoc", "read -r -d '' args <<EOF\npkg.train_sft \\\n   --max_len 2048 \\\n   --learning_rate 5e-6\nEOF\ndeepspeed --module $args\n"),
    ("heredoc_if", "read -r -d '' cmds <<EOF\npkg.cli.train_dpo \\\n   --beta 0.1 \\\n   --lr 5e-7 \\\n   --bf16\nEOF\nif [[ ${1} != \"slurm\" ]]; then\n    deepspeed --module $cmds\nfi\n",
     [[], ["slurm"]]),
    ("heredoc_variables", "LR=3e-4\nread -r -d '' ARGS <<-END || true\n\t--lr $LR\n\t--bs 8\n\tEND\npython3 train.py $ARGS\n"),
    ("heredoc_quoted", "read -r -d '' ARGS <<'EOF'\n--tag $NOT_A_VARIABLE\n--bs 8\nEOF\npython3 train.py $ARGS\n"),
    ("heredoc_cat", "ARGS=$(cat <<EOF\n--lr 1e-3\n--note it's\n--bs $((4 * 2))\nEOF\n)\npython3 train.py $ARGS\n"),
    ("heredoc_file", "cat > ds.json <<EOF\n{ \"train_batch_size\": 8, \"--lr\": 5 }\nEOF\ndeepspeed train.py --lr 1e-3 --deepspeed ds.json\n"),
    ("heredoc_python", "python3 - <<EOF\nprint('--lr 5')\nEOF\ntorchrun train.py --lr 1e-3\n"),
    ("here_string", "read -r A B <<< \"1e-3 8\"\npython3 train.py --lr $A --bs $B\n"),
    # Arrays
    ("arrays", "MODEL=(\n  --num-layers 24\n  --hidden-size 1024 # comment\n  --name \"two words\"\n)\nTRAIN=(--lr 1e-3)\nTRAIN+=(--bf16)\n"
               "torchrun pretrain.py ${MODEL[@]} \"${TRAIN[@]}\"\n"),
    ("array_elements", "LRS=(1e-3 1e-4)\nBS=([0]=4 [1]=8)\nN=${#LRS[@]}\npython3 train.py --lr ${LRS[1]} --bs ${BS[0]} --n $N --last ${LRS[-1]}\n"),
    ("array_slice", "A=(--a 1 --b 2 --c 3)\npython3 train.py \"${A[@]:2:2}\"\n"),
    ("associative", "declare -A LAYERS=([7B]=32 [70B]=80)\nSIZE=70B\npython3 train.py --num-layers ${LAYERS[$SIZE]} --size $SIZE\n"),
    ("associative_loop", "declare -A C\nC[lr]=1e-3\npython3 train.py --lr ${C[lr]}\n"),
    ("array_join", "A=(1 2 3)\nIFS=,\nS=\"${A[*]}\"\nunset IFS\npython3 train.py --list $S --x 1\n"),
    # Branches
    ("case_known", "SIZE=13B\ncase $SIZE in\n  7B) L=32; H=4096 ;;\n  13B|14B) L=40; H=5120 ;;\n  *) echo no; exit 1 ;;\nesac\ntorchrun pretrain.py --num-layers $L --hidden-size $H\n"),
    ("case_argument", "SIZE=$1\ncase \"$SIZE\" in\n  7B) L=32; H=4096 ;;\n  13B) L=40; H=5120 ;;\n  *) echo \"no such size\"; exit 1 ;;\nesac\n"
                      "torchrun pretrain.py --num-layers $L --hidden-size $H --lr 1e-4 --size $SIZE\n", [["7B"], ["13B"], ["x"]]),
    ("case_default", "SIZE=${1:-7B}\ncase $SIZE in 7B) L=32;; 70B) L=80;; esac\ntorchrun pretrain.py --num-layers $L --size $SIZE\n"),
    ("case_fall", "M=a1\ncase $M in a*) X=1 ;;& *1) Y=2 ;; *) Z=3 ;; esac\npython3 train.py --x ${X:-0} --y ${Y:-0} --z ${Z:-0}\n"),
    ("if_argument", "MODEL_SIZE=$1\nif [ $MODEL_SIZE = 7B ]; then\n  L=32\nelif [[ ${MODEL_SIZE} == \"70B\" ]]; then\n  L=80\nelse\n  echo bad\n  exit\nfi\ntorchrun pretrain.py --num-layers $L --bs 8\n",
     [["7B"], ["70B"], []]),
    ("if_known", "SIZE=7B; BF16=true\nif [[ $SIZE == 7B && $BF16 == true ]]; then A=\"--bf16\"; else A=\"--fp16\"; fi\nif ((4 > 3)); then B=\"--big 1\"; fi\ntorchrun train.py $A $B --lr 1\n"),
    ("if_environment", "if [ \"$DEBUG\" = 1 ]; then LR=1; else LR=2; fi\npython3 train.py --lr $LR --bs 4\n", [[], ["DEBUG=1"]]),
    ("if_flag", "if [[ -n $WANDB_API_KEY ]]; then EXTRA=\"--use-wandb --wandb-project x\"; fi\npython3 train.py --lr 1e-3 $EXTRA --bs 2\n", [[], ["WANDB_API_KEY=k"]]),
    ("if_empty", "if [ -z \"$LR\" ]; then LR=1e-3; fi\npython3 train.py --lr $LR\n"),
    ("if_numbers", "N=4\nif [ $N -gt 1 ] && [ $N -le 8 ]; then P=--parallel; fi\npython3 train.py $P --n $N\n"),
    ("if_regex", "M=qwen2.5-7b-chat\nif [[ $M =~ ^qwen[0-9.]+-7b ]]; then T=qwen; else T=other; fi\npython3 train.py --template $T\n"),
    ("if_pattern", "M=Qwen2-72B\nif [[ $M == *72B* ]]; then TP=8; elif [[ $M == *7B* ]]; then TP=1; fi\npython3 train.py --tp $TP\n"),
    ("if_file", "if [ -f resume.pt ]; then R=\"--resume resume.pt\"; else R=; fi\npython3 train.py $R --lr 1\n"),
    ("if_nested", "A=1; B=$2\nif [ $A = 1 ]; then\n  if [ \"$B\" = x ]; then V=10; else V=20; fi\nelse\n  V=30\nfi\npython3 train.py --v $V\n", [["", "x"], ["", "y"]]),
    ("if_same_twice", "if [ \"$FAST\" = 1 ]; then A=1; else A=2; fi\nif [ \"$FAST\" = 1 ]; then B=1; else B=2; fi\n[ $A = $B ] && C=same || C=other\npython3 train.py --c $C --a $A\n", [[], ["FAST=1"]]),
    ("and_or", "[ \"a\" = \"a\" ] && LR=1 || LR=2\nfalse || BS=4\ntrue && false && BS=8\npython3 train.py --lr $LR --bs $BS\n"),
    ("optional_flag", "TP=1\nBF16=1\ntorchrun train.py --lr 1e-3 $( [ $TP -gt 1 ] && echo --sequence-parallel ) $([[ $BF16 == 1 ]] && echo \"--bf16 --x 3\") --bs 8\n"),
    ("optional_flag_unknown", "torchrun train.py --lr 1e-3 $( [ \"$FP16\" = 1 ] && echo --fp16 ) --bs 8\n", [[], ["FP16=1"]]),
    ("optional_flag_else", "N=2\npython3 train.py --mode $([ $N -eq 1 ] && echo single || echo multi) --n $N\n"),
    ("test_string", "X=xyes\nif test x$Y = x; then A=1; fi\nif [ $X = xyes -a 1 -lt 2 ]; then B=2; fi\npython3 train.py --b $B\n"),
    ("exit_without", "if [ $# -lt 1 ]; then\n  echo usage\n  exit 1\nfi\npython3 train.py --lr 1e-3\n", [["x"], []]),
    ("negated", "A=1\nif ! [ $A = 2 ]; then L=3; fi\nif [[ ! $A == 1 ]]; then L=4; fi\npython3 train.py --l $L\n"),
    # Loops, functions, arguments
    ("for_sweep", "for lr in 1e-3 1e-4; do\n  python3 train.py --lr $lr --bs 8\ndone\n"),
    ("for_collect", "ARGS=\nfor d in a b c; do ARGS=\"$ARGS --set-$d data/$d\"; done\npython3 train.py $ARGS\n"),
    ("for_counting", "S=\nfor ((i = 0; i < 4; i++)); do S+=$i; done\npython3 train.py --s $S\n"),
    ("for_break", "for i in 1 2 3 4; do [ $i = 3 ] && break; [ $i = 1 ] && continue; L=$i; done\npython3 train.py --l $L\n"),
    ("for_seq", "T=0\nfor i in $(seq 1 4); do T=$((T + i)); done\npython3 train.py --t $T\n"),
    ("while", "i=0; D=\nwhile [ $i -lt 3 ]; do D=\"$D$i,\"; i=$((i+1)); done\npython3 train.py --devices ${D%,} --i $i\n"),
    ("while_read", "N=0\nwhile read -r name value; do\n  ARGS+=\" --$name $value\"; N=$((N + 1))\ndone <<EOF\nlr 1e-3\nbs 8\nEOF\npython3 train.py $ARGS --n $N\n"),
    ("while_arguments", "LR=1e-3\nwhile [[ $# -gt 0 ]]; do\n  case $1 in\n    --lr) LR=$2; shift 2 ;;\n    *) shift ;;\n  esac\ndone\npython3 train.py --lr $LR\n"),
    ("function", "train() {\n  local lr=$1\n  shift\n  torchrun train.py --lr $lr \"$@\"\n}\ntrain 1e-3 --bs 8 --name \"a b\"\n"),
    ("function_twice", "run() { python3 train.py --lr \"$1\" --seed ${2:-42}; }\nrun 1e-3\nrun 1e-4 7\n"),
    ("function_wrapper", "function log_and_run {\n  echo \"+ $*\"\n  \"$@\"\n}\nlog_and_run torchrun --nnodes 2 train.py --lr 1e-3\n"),
    ("function_sets", "set_model() { case $1 in small) L=2;; large) L=9;; esac; }\nset_model large\npython3 train.py --layers $L\n"),
    ("function_prints", "pick() { if [ $1 -gt 4 ]; then echo big; else echo small; fi; }\npython3 train.py --kind $(pick 8) --other \"$(pick 1)\"\n"),
    ("function_local", "L=1\nf() { local L=2; M=$L; }\nf\npython3 train.py --l $L --m $M\n"),
    ("function_return", "f() { [ $1 = a ] && return 0; return 1; }\nif f a; then X=1; else X=2; fi\nf b || Y=3\npython3 train.py --x $X --y $Y\n"),
    ("set_arguments", "set -- --lr 1e-3 --bs 8\nset -- \"$@\" --bf16\npython3 train.py \"$@\" --count $#\n"),
    ("loop_arguments", "f() {\n  for a in \"$@\"; do\n    case $a in --lr=*) LR=${a#*=} ;; --bs=*) BS=${a#--bs=} ;; esac\n  done\n}\nf --lr=1e-3 --bs=16\npython3 train.py --lr $LR --bs $BS\n"),
    ("loop_shift", "f() { while [ $# -gt 0 ]; do case \"$1\" in -l) LR=\"$2\"; shift ;; esac; shift; done; }\nf -x -l 5e-4\npython3 train.py --lr $LR\n"),
    ("arguments_pass", "python3 train.py --lr 1e-3 \"$@\"\n"),
    ("argument_value", "python3 train.py --lr $1 --bs 8\n", [["1e-3"], ["1e-4"]]),
    ("argument_part", "python3 train.py --out runs/$1/x --bs 8\n", [["a"], ["b"]]),
    ("argument_count", "if [ $# -eq 0 ]; then N=1; else N=$1; fi\npython3 train.py --n $N --bs 2\n"),
    ("source", ". ./common.sh\npython3 train.py --lr $LR $(warm 10) --bs 8\n"),
    ("source_folder", "DIR=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\nsource \"$DIR/common.sh\"\npython3 train.py --lr $LR --bs 8\n"),
    ("run_inner", "export SEED=3\nbash inner.sh 7B --lr 1e-3\n"),
    # Expansion
    ("defaults", "A=${A:-1}; : ${B:=2}; C=${C-3}; D=; E=${D:-4}; F=${D-5}\npython3 train.py --a $A --b $B --c $C --e $E --f \"x$F\" ${A:+--g 6}\n"),
    ("operations", "M=org/Qwen2-7B-Chat\nN=${M##*/}; S=${N%-Chat}; T=${S#*-}\npython3 train.py --name $N --s ${S,,} --t $T --r ${M//\\//_} --len ${#N} --cut ${N:0:4} --up ${T^^}\n"),
    ("indirect", "LR_7B=1e-3; LR_70B=1e-4; SIZE=70B\nNAME=LR_$SIZE\npython3 train.py --lr ${!NAME}\n"),
    ("arithmetic", "N=8; TP=2; PP=2\nDP=$((N / (TP * PP))); GBS=$(( DP * 4 )); (( GBS *= 2 )); let X=GBS+1\npython3 train.py --dp $DP --gbs $GBS --x $X --hex $((0x10)) --t $((N > 4 ? 1 : 0))\n"),
    ("declare_integer", "declare -i N=4\nN+=2\npython3 train.py --n $N\n"),
    ("braces", "python3 train.py --files d{1,2,3}.json --n {1..4} --bs 8\n"),
    ("quotes", "python3 train.py --a 'b c' --d \"e $UNSET_NAME f\" --g h\\ i --j $'k\\tl' --m \"\"\n"),
    ("words_in_variable", "BLEND=\"0.5 a 0.5 b\"\npython3 train.py --data $BLEND --split 99,1,0\n"),
    ("placeholder_words", "CKPT=\"<Specify path>\"\npython3 train.py --load $CKPT --save \"$CKPT\" --lr 1\n"),
    ("equals_and_rest", "python3 wrapper.py --x \"a=b\" -- rest --y 1\n"),
    ("json_value", "python3 train.py --cfg '{\"a\": [1, 2]}' --kw a=1 b=2 --last 1\n"),
    ("commented_line", "torchrun train.py \\\n  --lr 1e-3 \\\n  --bs 8\n# --old 5\n"),
    ("vanishing_flag", "python3 train.py --bf16 $EXTRA_ARGS --lr 1e-3\n"),
    ("unset_scalar", "A=1; unset A\npython3 train.py --a ${A:-gone}\n"),
    ("printf_variable", "printf -v TAG '%s-%03d' run 7\npython3 train.py --tag $TAG --pad $(printf '%02d' 5)\n"),
    ("tools", "P=/data/models/qwen.bin\npython3 train.py --b $(basename $P .bin) --d $(dirname $P) --e $(expr 3 + 4) --t $(echo A-B | tr A-Z a-z) --c $(echo x:y | cut -d: -f2)\n"),
    ("split_list", "IFS=',' read -ra D <<< \"0,1,2\"\npython3 train.py --n ${#D[@]} --first ${D[0]}\n"),
    ("mapfile", "mapfile -t L <<< $'a\\nb'\npython3 train.py --n ${#L[@]} --l ${L[1]}\n"),
    ("backquotes", "N=`echo 8`\npython3 train.py --n $N --m `expr $N \\* 2`\n"),
    ("opaque", "python3 train.py --save out/$(date +%s) --lr 1e-3 --host $(hostname)\n"),
    ("last_wins", "python3 train.py --lr 1 --bs 8 --lr 2\n"),
    ("dotted", "python3 -m verl_like.main data.files=\"['$PWD/a','b']\" actor.lr=1e-6 trainer.logger='[\"console\"]' actor.offload=False\n"),
    # Environment
    ("exports", "export NCCL_ALGO=Ring CUDA_DEVICE_MAX_CONNECTIONS=1\nexport OMP_NUM_THREADS\npython3 train.py --lr 1e-3\n"),
    ("export_later", "NCCL_ALGO=Ring\nexport NCCL_ALGO\ndeclare -x NCCL_PROTO=Simple\npython3 train.py --lr 1e-3\n"),
    ("export_all", "set -a\nNCCL_ALGO=Ring\nset +a\nNCCL_PROTO=LL\npython3 train.py --lr 1e-3\n"),
    ("export_if", "if [ \"$FAST\" = 1 ]; then export NCCL_ALGO=Tree; else export NCCL_ALGO=Ring; fi\npython3 train.py --lr 1e-3\n", [[], ["FAST=1"]]),
    ("export_case", "ALG=ring\ncase $ALG in ring) export NCCL_ALGO=Ring;; tree) export NCCL_ALGO=Tree;; esac\npython3 train.py --lr 1e-3\n"),
    ("prefix", "NCCL_ALGO=Ring HCCL_DETERMINISTIC=true python3 train.py --lr 1e-3\n"),
    ("unset_export", "export NCCL_ALGO=Ring\nunset NCCL_ALGO\nexport NCCL_PROTO=LL\nexport -n NCCL_PROTO\npython3 train.py --lr 1e-3\n"),
    ("export_words", "VARS=\"NCCL_ALGO=Ring NCCL_PROTO=LL\"\nexport $VARS\npython3 train.py --lr 1e-3\n"),
]

# Whole scripts in the shape of those of well-known frameworks.
SCRIPTS += [
    ("shape_verl", """set -x
export VLLM_ATTENTION_BACKEND=XFORMERS
train_path=$HOME/data/gsm8k/train.parquet
test_path=$HOME/data/gsm8k/test.parquet
train_files="['$train_path', '$test_path']"
max_prompt=$((1024 * 2))
clip_low=0.2
offload=True
enable_overlong=${ENABLE_OVERLONG:-False}
loss_agg_mode="token-mean"
NNODES=${NNODES:-4}

python3 -m verl_like.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_files="$train_files" \\
    data.max_prompt_length=${max_prompt} \\
    data.max_response_length=$((max_prompt*4)) \\
    actor.ppo_max_token_len=$(((max_prompt + 512) * 2)) \\
    actor.clip_low=${clip_low} \\
    actor.fsdp.param_offload=${offload} \\
    actor.loss_agg_mode=${loss_agg_mode} \\
    reward.overlong=${enable_overlong} \\
    +reward.kwargs.log=False \\
    trainer.logger='["console","wandb"]' \\
    trainer.nnodes="${NNODES}" \\
    trainer.total_epochs=15 $@
"""),
    ("shape_verl_ray", """#!/usr/bin/env bash
set -euxo pipefail
WORKING_DIR=${WORKING_DIR:-"${PWD}"}
RAY_ADDRESS=${RAY_ADDRESS:-"http://localhost:8265"}
temperature=1.0
top_k=-1
sp_size=4
ray job submit --no-wait --working-dir "${WORKING_DIR}" \\
    -- python3 -m recipe.main_dapo \\
    rollout.temperature=${temperature} \\
    rollout.top_k="${top_k}" \\
    actor.sp_size=${sp_size} \\
    actor.lr=1e-6
"""),
    ("shape_slime", """#!/bin/bash
set -ex
NVLINK_COUNT=$(nvidia-smi topo -m 2>/dev/null | grep -o 'NV[0-9][0-9]*' | wc -l)
if [ "$NVLINK_COUNT" -gt 0 ]; then HAS_NVLINK=1; else HAS_NVLINK=0; fi
SCRIPT_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
MODEL_ARGS=(
   --swiglu
   --num-layers 36
   --disable-bias-linear
   --normalization "RMSNorm"
)
CKPT_ARGS=(
   --hf-checkpoint /data/Qwen3-4B
   #--ref-load /data/other
   --save-interval 20
)
GRPO_ARGS=( --advantage-estimator grpo --eps-clip 0.2 )
ray start --head --num-gpus 8 || true
RUNTIME_ENV_JSON="{
  \\"env_vars\\": {
    \\"PYTHONPATH\\": \\"/data/Megatron-LM/\\",
    \\"CUDA_DEVICE_MAX_CONNECTIONS\\": \\"1\\",
    \\"NCCL_NVLS_ENABLE\\": \\"${HAS_NVLINK}\\"
  }
}"
ray job submit --address="http://127.0.0.1:8265" \\
   --runtime-env-json="${RUNTIME_ENV_JSON}" \\
   -- python3 train.py \\
   --actor-num-nodes 1 \\
   --colocate \\
   ${MODEL_ARGS[@]} \\
   ${CKPT_ARGS[@]} \\
   ${GRPO_ARGS[@]} \\
   ${DISTRIBUTED_ARGS[@]}
"""),
    ("shape_openrlhf", """set -x

read -r -d '' training_commands <<EOF
pkg.cli.train_sft \\
   --max_len 4096 \\
   --dataset some/data \\
   --input_template $'User: {}' \\
   --train_batch_size 256 \\
   --zero_stage 2 \\
   --learning_rate 5e-6 \\
   --packing_samples
EOF
    # --use_wandb [WANDB_TOKENS] or True

if [[ ${1} != "slurm" ]]; then
    deepspeed --module $training_commands
fi
"""),
    ("shape_megatron", """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NODE_RANK=0
WORLD_SIZE=$(($GPUS_PER_NODE*2))
CHECKPOINT_PATH=$1 #<Specify path>
TENSORBOARD_DIR=$2
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes 2
    --node_rank $NODE_RANK
)
GPT_MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size $((WORLD_SIZE * 96))
    --rampup-batch-size 16 16 5859375
    --lr 6.0e-5
    --fp16
)
DATA_ARGS=(
    --split 949,50,1
    --save $CHECKPOINT_PATH
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \\
    ${GPT_MODEL_ARGS[@]} \\
    ${TRAINING_ARGS[@]} \\
    ${DATA_ARGS[@]}
""", [["ck", "tb"], ["other", "tb"]]),
    ("shape_npu", """#!/bin/bash
source /usr/local/Ascend/ascend-toolkit/set_env.sh
export HCCL_DETERMINISTIC=true
export CUDA_DEVICE_MAX_CONNECTIONS=1
NPUS=8
DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS \\
    --nnodes ${NNODES:=1} \\
    --master_port 6000
"
MODEL=llama2
if [[ "$MODEL" == "llama2" ]]; then
    MODEL_ARGS="--num-layers 32 --hidden-size 4096"
else
    MODEL_ARGS="--num-layers 40 --hidden-size 5120"
fi
GPT_ARGS="
    $MODEL_ARGS \\
    --lr 1.25e-6 \\
    --bf16
"
for p in cache logs; do mkdir -p $p; done
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \\
    $GPT_ARGS \\
    --distributed-backend nccl \\
    | tee logs/train.log
"""),
    ("shape_getopts", """usage() { echo "usage: $0 -s size"; exit 1; }
SIZE=7B
parse() {
  while [[ "$#" -gt 0 ]]; do
    case "$1" in
      -s|--size) SIZE="$2"; shift 2 ;;
      --lr=*) LR="${1#*=}"; shift ;;
      *) usage ;;
    esac
  done
}
parse --size 13B --lr=3e-4
declare -A HIDDEN=( ["7B"]=4096 ["13B"]=5120 )
torchrun train.py --hidden "${HIDDEN[$SIZE]}" --lr "$LR"
"""),
    ("shape_slurm", """#!/bin/bash
#SBATCH --nodes=2
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node=${nodes[0]}
export LOGLEVEL=INFO
export NCCL_ALGO=Ring
srun torchrun \\
    --nnodes 2 \\
    --rdzv_id $RANDOM \\
    --rdzv_backend c10d \\
    train.py 50 10 --lr 1e-3
"""),
    ("shape_sweep", """for seed in 1 2; do
  for lr in 1e-3 1e-4; do
    CUDA_VISIBLE_DEVICES=$((seed - 1)) nohup python -u train.py --seed $seed --lr $lr --out out/s${seed}_${lr} > log_$seed.txt 2>&1
  done
done
"""),
    ("shape_resume", """CKPT=out/last
LATEST=$(ls -t out 2>/dev/null | head -1)
if [ -n "$LATEST" ]; then RESUME="--resume-from out/$LATEST"; fi
[[ -z "${MODE:-}" ]] && MODE=train
accelerate launch --num_processes 2 run.py --mode $MODE ${RESUME:-} --lr 1e-4
"""),
]

SIZES = {"7B": (32, 4096), "13B": (40, 5120), "70B": (80, 8192)}


def made(seed):
    """A script of random parts: a way to choose, ways to hold options, a launcher, and something around it."""
    pick = random.Random(seed)
    size, lr, bs = pick.choice(list(SIZES)), pick.choice(["1e-3", "2e-5", "5e-06"]), pick.choice([1, 4, 16])
    lines, variants = [], [[]]
    how = pick.randrange(5)
    lines.append([f"SIZE={size}", "SIZE=$1", f"SIZE=${{SIZE:-{size}}}", f"SIZE=${{1:-{size}}}", f"read -r SIZE <<< {size}"][how])
    if how == 1:
        variants = [["7B"], ["70B"]]
    if pick.random() < 0.5:
        lines += ["case $SIZE in"] + [f"  {k}) LAYERS={v[0]}; HIDDEN={v[1]} ;;" for k, v in SIZES.items()] + (["  *) echo none; exit 1 ;;"] if pick.random() < 0.5 else []) + ["esac"]
    else:
        for i, (k, v) in enumerate(SIZES.items()):
            test = pick.choice([f'[ "$SIZE" = "{k}" ]', f"[[ $SIZE == {k} ]]", f'[ x$SIZE = x{k} ]', f"test $SIZE == {k}"])
            lines.append(f"{'elif' if i else 'if'} {test}; then\n  LAYERS={v[0]}\n  HIDDEN={v[1]}")
        lines += ["else\n  exit 2" if pick.random() < 0.5 else "else\n  LAYERS=1; HIDDEN=64", "fi"]
    lines.append(pick.choice([f"LR={lr}", f"LR=${{LR:-{lr}}}", f"lr() {{ echo {lr}; }}\nLR=$(lr)", f"LR_{size}={lr}\nLR=$LR_{size}"]))
    lines.append(pick.choice([f"BS=$(({bs} * 2))", f"BS={bs}\nBS=$((BS+1))", f"BS=`expr {bs} + 1`", f"for BS in 1 2 {bs}; do :; done", f"BS=0; while [ $BS -lt {bs} ]; do BS=$((BS + 1)); done"]))
    model, train = "--num-layers $LAYERS --hidden-size $HIDDEN", "--lr $LR --bs $BS"
    holder = pick.randrange(6)
    if holder == 0:
        lines += [f'MODEL_ARGS="\n    {model}\n"', f'TRAIN_ARGS="\n    {train} \\\n    --bf16\n"']
        words = "$MODEL_ARGS $TRAIN_ARGS"
    elif holder == 1:
        lines += [f"MODEL_ARGS=(\n    {model}\n)", f"TRAIN_ARGS=({train})", "TRAIN_ARGS+=(--bf16)"]
        words = '"${MODEL_ARGS[@]}" ${TRAIN_ARGS[@]}'
    elif holder == 2:
        lines += [f"read -r -d '' ARGS <<EOF\n    {model} \\\n    {train}\nEOF"]
        words = "${ARGS}"
    elif holder == 3:
        lines += [f"ARGS=$(cat <<EOF\n{model}\n{train}\nEOF\n)"]
        words = "$ARGS"
    elif holder == 4:
        lines += [f"set -- {model} {train}"]
        words = '"$@"'
    else:
        words = f"\\\n    {model} \\\n    {train}"
    if pick.random() < 0.4:
        test = pick.choice(["[ $BS -gt 4 ]", "[[ $SIZE == 70B ]]", '[ "$EXTRA" = 1 ]'])
        words += f" $({test} && echo --recompute)"
        if "EXTRA" in test:
            variants = variants + [["EXTRA=1"] + variants[0]]
    if pick.random() < 0.5:
        lines.append(pick.choice(["export NCCL_ALGO=Ring", "export NCCL_ALGO=Tree NCCL_PROTO=LL", "NCCL_ALGO=Ring; export NCCL_ALGO"]))
    launcher = pick.choice(["torchrun --nproc_per_node 8 pretrain.py", "python3 -u pretrain.py", "python3 -m pkg.main", "deepspeed --num_gpus 8 train.py", "accelerate launch --num_processes 8 train.py",
                            "swift sft", "megatron pt", "$PYTHON_BIN -m pkg.train", "ray job submit --no-wait -- python3 train.py", "nohup torchrun train.py", "env A=1 python3 train.py",
                            "srun -N 2 python3 train.py", "mpirun -np 8 python3 train.py", "exec python3 train.py", "time python3 train.py", "numactl -m 0 python3 train.py", "NCCL_DEBUG=INFO python train.py"])
    if "$PYTHON_BIN" in launcher:
        lines.append("if [ -x /opt/py/bin/python3 ]; then PYTHON_BIN=/opt/py/bin/python3; else PYTHON_BIN=python3; fi")
    line = f"{launcher} {words}"
    around = pick.randrange(5)
    if around == 0:
        lines += [f"launch() {{\n  {line} \"$@\"\n}}", "launch --seed 1 --tag 'x y'"] if "$@" not in words else [line]
    elif around == 1:
        lines.append(line + " 2>&1 | tee log.txt")
    elif around == 2 and "ray" not in launcher and "exec" not in launcher:
        lines.append(f"if [ -d logs ] || mkdir -p logs; then\n  {line} > logs/out.txt 2>&1\nfi")
    else:
        lines.append(line)
    return f"made_{seed}", "\n".join(lines) + "\n", variants
