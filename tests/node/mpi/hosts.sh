#!/bin/sh
# Several hosts on one machine, each a set of namespaces of its own, joined by a bridge in another: for tests of what happens when a link
# between hosts is cut, or a host is lost. Needs root and ip(8).
#
#   hosts.sh up FOLDER [NUMBER]       10.91.7.1, 10.91.7.2, ... [2]; FOLDER holds the numbers of their first processes
#   hosts.sh run FOLDER WORD...       on the first host: network and names are the host's, processes and files the machine's
#   hosts.sh agent FOLDER 10.91.7.2 WORD...     what mpirun takes for ssh
#   hosts.sh own FOLDER PATH          on all hosts but the first an empty folder of the host's own lies over PATH; FOLDER/hostN.files holds it
#   hosts.sh cut FOLDER [N] | heal FOLDER [N]   the cable of host N [2] out of the bridge: silence, no error anywhere
#   hosts.sh crash FOLDER N | boot FOLDER N     the host and all that runs there gone at once; a new one in its place
#   hosts.sh down FOLDER              the hosts and all that runs on them are gone
#
# Exit status 77: this machine does not permit namespaces.
set -eu
what=$1
folder=$2
shift 2

first_process() { cat "$folder/$1.pid"; }

# Its first process is a sleep with nothing of ours open; when it ends, so does the host with all its processes.
make_first_process() { # NAME NAMESPACES...
  name=$1
  shift
  unshare "$@" --fork --kill-child sleep infinity </dev/null >/dev/null 2>&1 &
  outer=$!
  inner=
  patience=40
  while [ -z "$inner" ] && [ "$patience" -gt 0 ]; do
    sleep 0.05
    patience=$((patience - 1))
    kill -0 "$outer" 2>/dev/null || exit 77
    read -r inner 2>/dev/null <"/proc/$outer/task/$outer/children" || true
    inner=${inner%% *}
  done
  [ -n "$inner" ] || exit 77
  echo "$outer" >"$folder/$name.outer"
  echo "$inner" >"$folder/$name.pid"
}

in_network() { # NAME WORD...
  name=$1
  shift
  nsenter --target "$(first_process "$name")" --net -- "$@"
}

# Who starts others must see their processes, so the first host shares those and the files of the machine.
make_host() { # NUMBER
  number=$1
  host=host$number
  if [ "$number" = 1 ]; then make_first_process host1 --net --uts --ipc; else make_first_process "$host" --net --uts --ipc --pid --mount-proc; fi
  nsenter --target "$(first_process "$host")" --uts -- hostname "$host"
  in_network bridge ip link add name "port$number" type veth peer name eth0 netns "$(first_process "$host")" || exit 77
  in_network bridge ip link set "port$number" master ring up
  # The same for whoever takes its place: the others remember it.
  in_network "$host" ip link set eth0 address "02:00:00:00:07:0$number"
  in_network "$host" ip address add "10.91.7.$number/24" dev eth0
  in_network "$host" ip link set lo up
  in_network "$host" ip link set eth0 up
}

end_host() { # NAME
  for kind in pid outer; do
    if [ -f "$folder/$1.$kind" ]; then kill -9 "$(cat "$folder/$1.$kind")" 2>/dev/null || true; fi
  done
  rm -f "$folder/$1.pid" "$folder/$1.outer"
}

case $what in
up)
  mkdir -p "$folder"
  unshare --net --uts --ipc --pid --fork true 2>/dev/null || exit 77
  make_first_process bridge --net
  in_network bridge ip link add ring type bridge || exit 77
  in_network bridge ip link set ring up
  for number in $(seq "${1:-2}"); do make_host "$number"; done
  ;;
run) exec nsenter --target "$(first_process host1)" --net --uts --ipc -- "$@" ;;
agent)
  address=$1
  shift
  exec nsenter --target "$(first_process "host${address##*.}")" --net --uts --ipc --pid --mount -- /bin/sh -c "$*"
  ;;
own)
  for first in "$folder"/host*.pid; do
    host=$(basename "$first" .pid)
    [ "$host" = host1 ] && continue
    mkdir -p "$folder/$host.files/$1"
    nsenter --target "$(cat "$first")" --mount -- mount --bind "$folder/$host.files/$1" "$1" || exit 77
  done
  ;;
cut) in_network bridge ip link set "port${1:-2}" nomaster ;;
heal) in_network bridge ip link set "port${1:-2}" master ring ;;
crash)
  end_host "host$1"
  in_network bridge ip link delete "port$1" 2>/dev/null || true # it goes with the other end, a moment later
  ;;
boot) make_host "$1" ;;
down)
  for first in "$folder"/*.outer; do
    [ ! -f "$first" ] || end_host "$(basename "$first" .outer)"
  done
  ;;
*)
  echo "hosts.sh: up, run, agent, own, cut, heal, crash, boot or down, not \"$what\"" >&2
  exit 2
  ;;
esac
