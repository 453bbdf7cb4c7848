A='x'; A_ARGS="--a $'\n' \
"; eval deepspeed t.py $A_ARGS `b` ${C%%d} -1 a.b=c