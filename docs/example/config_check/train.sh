#!/bin/bash
# What an NPU side was started with.
MODEL_ARGS="
    --num-layers 24
    --hidden-size 2048
    --seq-length 4096
    --attention-dropout 0.1
"
torchrun --nproc_per_node 8 train.py \
    $MODEL_ARGS \
    --micro-batch-size 1 --lr=1.5e-4 --seed 1234 --bf16
