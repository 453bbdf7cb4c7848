if [ a
for x in 1 2; do
case $x in a) b ;;
f() { while :; do
(( 1 + $((2
[[ a == b
