cat <<-EOF > x
	--a
	EOF
if [ $x ]; then
python3 -m torch.distributed.run t.py --a "b c" \
 # d
 --e=$(f "g)") > >(tee h) 2>&1 | i &
fi
