train() {
  local lr=$1
  shift
  torchrun train.py --lr $lr "$@"
}
train 1e-3 --bs 8 --name "a b"

f() {
  for a in "$@"; do
    case $a in --lr=*) LR=${a#*=} ;; --bs=*) BS=${a#--bs=} ;; esac
  done
}
f --lr=1e-3 --bs=16
python3 train.py --lr $LR --bs $BS

pick() { if [ $1 -gt 4 ]; then echo big; else echo small; fi; }
python3 train.py --kind $(pick 8) --other "$(pick 1)"

set -- --lr 1e-3 --bs 8
set -- "$@" --bf16
python3 train.py "$@" --count $#
