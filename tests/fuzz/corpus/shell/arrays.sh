A=(--x 1 "${B[@]}")
A+=(y)
export C="$A ${D:-${E:-3}}"
srun -n 2 bash -c "torchrun --nnodes=2 t.py ${A[@]} $C"
