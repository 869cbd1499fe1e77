# Waiting for its input when the signal comes.
mkfifo input
kvcal prompts "$SOURCE/datasets/demo/natural" --prompts - <input &
exec 3>input
sleep 1
kill -INT $!
wait $!
echo $?
