SIZE=$1
case "$SIZE" in
  7B) L=32; H=4096 ;;
  13B) L=40; H=5120 ;;
  *) echo "no such size"; exit 1 ;;
esac
torchrun pretrain.py --num-layers $L --hidden-size $H --lr 1e-4 --size $SIZE

M=qwen2.5-7b-chat
if [[ $M =~ ^qwen[0-9.]+-7b ]]; then T=qwen; else T=other; fi
python3 train.py --template $T

if [ "$FAST" = 1 ]; then A=1; else A=2; fi
if [ "$FAST" = 1 ]; then B=1; else B=2; fi
[ $A = $B ] && C=same || C=other
python3 train.py --c $C --a $A

[ "a" = "a" ] && LR=1 || LR=2
false || BS=4
true && false && BS=8
python3 train.py --lr $LR --bs $BS
