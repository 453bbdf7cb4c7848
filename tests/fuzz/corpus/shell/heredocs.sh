read -r -d '' args <<EOF
pkg.train_sft \
   --max_len 2048 \
   --learning_rate 5e-6
EOF
deepspeed --module $args

ARGS=$(cat <<EOF
--lr 1e-3
--note it's
--bs $((4 * 2))
EOF
)
python3 train.py $ARGS

N=0
while read -r name value; do
  ARGS+=" --$name $value"; N=$((N + 1))
done <<EOF
lr 1e-3
bs 8
EOF
python3 train.py $ARGS --n $N

read -r A B <<< "1e-3 8"
python3 train.py --lr $A --bs $B
