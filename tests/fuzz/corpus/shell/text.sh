printf -v TAG '%s-%03d' run 7
python3 train.py --tag $TAG --pad $(printf '%02d' 5)

P=/data/models/qwen.bin
python3 train.py --b $(basename $P .bin) --d $(dirname $P) --e $(expr 3 + 4) --t $(echo A-B | tr A-Z a-z) --c $(echo x:y | cut -d: -f2)

IFS=',' read -ra D <<< "0,1,2"
python3 train.py --n ${#D[@]} --first ${D[0]}

mapfile -t L <<< $'a\nb'
python3 train.py --n ${#L[@]} --l ${L[1]}

N=`echo 8`
python3 train.py --n $N --m `expr $N \* 2`
