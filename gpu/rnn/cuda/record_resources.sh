#!/bin/sh
# Runs a CUDA compiler and keeps what it says about every kernel's registers and spills beside the object file, as
# OBJECT.resources; what remains of its messages is printed. A test holds the files to budgets.
#
#   record_resources.sh [ccache] nvcc -Xptxas -v ... -o OBJECT
object=
previous=
for argument in "$@"; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
said=$(mktemp)
"$@" 2> "$said"
status=$?
if [ -n "$object" ]; then
  grep -E '^ptxas info|bytes stack frame' "$said" > "$object.resources"
fi
grep -vE '^ptxas info|bytes stack frame' "$said" >&2
rm -f "$said"
exit "$status"
