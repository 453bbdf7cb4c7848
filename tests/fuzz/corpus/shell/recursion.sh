f() { f "$@" "$@"; }
f a b
A=x; for i in {1..30}; do A=$A$A; done
while true; do :; done
python t.py --a $A
