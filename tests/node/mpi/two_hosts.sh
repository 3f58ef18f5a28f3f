#!/bin/sh
# Two hosts on one machine, each a set of namespaces of its own, joined by a bridge in a third: for tests of what happens when a link
# between hosts is cut. Needs root and ip(8).
#
#   two_hosts.sh up FOLDER            10.91.7.1 and 10.91.7.2; FOLDER holds the numbers of their first processes
#   two_hosts.sh run FOLDER WORD...   on the first host: network and names are the host's, processes and files the machine's
#   two_hosts.sh agent FOLDER 10.91.7.2 WORD...     what mpirun takes for ssh
#   two_hosts.sh cut FOLDER | heal FOLDER           the second host's cable out of the bridge: silence, no error anywhere
#   two_hosts.sh down FOLDER          the hosts and all that runs on them are gone
#
# Exit status 77: this machine does not permit namespaces.
set -eu
what=$1
folder=$2
shift 2

first_process() { cat "$folder/$1.pid"; }

# Its first process is a sleep with nothing of ours open; when it ends, so does the host with all its processes.
make_host() { # NAME NAMESPACES...
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

case $what in
up)
  mkdir -p "$folder"
  unshare --net --uts --ipc --pid --fork true 2>/dev/null || exit 77
  make_host bridge --net
  make_host host1 --net --uts --ipc
  make_host host2 --net --uts --ipc --pid --mount-proc
  in_network bridge ip link add ring type bridge || exit 77
  in_network bridge ip link set ring up
  for number in 1 2; do
    host=host$number
    nsenter --target "$(first_process $host)" --uts -- hostname "$host"
    in_network bridge ip link add name "port$number" type veth peer name eth0 netns "$(first_process $host)" || exit 77
    in_network bridge ip link set "port$number" master ring up
    in_network $host ip address add "10.91.7.$number/24" dev eth0
    in_network $host ip link set lo up
    in_network $host ip link set eth0 up
  done
  ;;
run) exec nsenter --target "$(first_process host1)" --net --uts --ipc -- "$@" ;;
agent)
  address=$1
  shift
  exec nsenter --target "$(first_process "host${address##*.}")" --net --uts --ipc --pid --mount -- /bin/sh -c "$*"
  ;;
cut) in_network bridge ip link set port2 nomaster ;;
heal) in_network bridge ip link set port2 master ring ;;
down)
  for name in host1 host2 bridge; do
    for kind in pid outer; do
      if [ -f "$folder/$name.$kind" ]; then kill -9 "$(cat "$folder/$name.$kind")" 2>/dev/null || true; fi
    done
    rm -f "$folder/$name.pid" "$folder/$name.outer"
  done
  ;;
*)
  echo "two_hosts.sh: up, run, agent, cut, heal or down, not \"$what\"" >&2
  exit 2
  ;;
esac
