RUNTIME_ENV_JSON="{
  \"env_vars\": {
    \"NCCL_ALGO\": \"Ring\",
    \"PYTHONPATH\": \"/data/x/\"
  }
}"
ray job submit --address="http://127.0.0.1:8265" \
   --runtime-env-json="${RUNTIME_ENV_JSON}" \
   -- python3 train.py \
   --actor-num-nodes 1 --lr 1e-6

LR=1e-3
bash -c "torchrun train.py --lr $LR --bs 8 2>&1 | tee log"

mpirun -np 8 -x NCCL_ALGO=Ring python3 train.py --lr 1e-3

TP=1
BF16=1
torchrun train.py --lr 1e-3 $( [ $TP -gt 1 ] && echo --sequence-parallel ) $([[ $BF16 == 1 ]] && echo "--bf16 --x 3") --bs 8

CMD="torchrun train.py"
CMD+=" --lr 1e-3 --name 'a b'"
eval $CMD
