M=org/Qwen2-7B-Chat
N=${M##*/}; S=${N%-Chat}; T=${S#*-}
python3 train.py --name $N --s ${S,,} --t $T --r ${M//\//_} --len ${#N} --cut ${N:0:4} --up ${T^^}

N=8; TP=2; PP=2
DP=$((N / (TP * PP))); GBS=$(( DP * 4 )); (( GBS *= 2 )); let X=GBS+1
python3 train.py --dp $DP --gbs $GBS --x $X --hex $((0x10)) --t $((N > 4 ? 1 : 0))

python3 train.py --files d{1,2,3}.json --n {1..4} --bs 8

declare -A LAYERS=([7B]=32 [70B]=80)
SIZE=70B
python3 train.py --num-layers ${LAYERS[$SIZE]} --size $SIZE

LR_7B=1e-3; LR_70B=1e-4; SIZE=70B
NAME=LR_$SIZE
python3 train.py --lr ${!NAME}
