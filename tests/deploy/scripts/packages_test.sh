#!/usr/bin/env bash
# packages_test.sh ROOT: deploy/packages.sh against stand-ins for dpkg-query, apt-get and sudo that only write down how
# they were called: nothing is touched when all is there, only the missing is asked for, and failures are said.
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"

# "Installed" is what the file lists; apt-get adds to it unless the network is "down".
cat >"$work/bin/dpkg-query" <<'STAND_IN'
#!/usr/bin/env bash
grep -qx "${!#}" "$WORK/installed" && echo -n installed
STAND_IN
cat >"$work/bin/apt-get" <<'STAND_IN'
#!/usr/bin/env bash
echo "apt-get $*" >>"$WORK/calls"
[[ ! -e $WORK/down ]] || exit 100
[[ $1 == install ]] || exit 0
for argument in "${@:2}"; do [[ $argument == -* ]] || echo "$argument" >>"$WORK/installed"; done
STAND_IN
printf '#!/usr/bin/env bash\necho "sudo" >>"$WORK/calls"\nexec "$@"\n' >"$work/bin/sudo"
chmod +x "$work"/bin/*
export WORK=$work PATH=$work/bin:$PATH

# run COMMAND: in a shell of its own, because install_packages ends the shell it fails in.
run() { bash -c "source '$root/deploy/packages.sh'; $1" >"$work/output" 2>&1; }
fail() {
  echo "FAILED: $1"
  cat "$work/output" "$work/calls"
  exit 1
}
start() { printf '%s\n' "$@" >"$work/installed" && : >"$work/calls" && rm -f "$work/down"; }

start one two
run 'install_packages one two' || fail "everything is there"
[[ ! -s $work/calls ]] || fail "nothing may be called when everything is there"

start one
run 'install_packages one two three' || fail "two are missing"
grep -qE '^apt-get install .* two three$' "$work/calls" || fail "exactly the missing ones are installed"
((EUID == 0)) && grep -q sudo "$work/calls" && fail "root needs no sudo"
((EUID == 0)) || grep -q 'with sudo' "$work/output" || fail "sudo is announced"
: >"$work/calls"
run 'install_packages one two three' || fail "the second time"
[[ ! -s $work/calls ]] || fail "the second time nothing is called"

start one
touch "$work/down"
if run 'install_packages one two'; then fail "a required package that cannot be had must end the script"; fi
grep -q 'cannot be built without these packages: two' "$work/output" || fail "the missing package is named"
run 'install_packages_if_possible two; echo went on' || fail "an optional package is no reason to stop"
grep -q 'Going on without two' "$work/output" && grep -q 'went on' "$work/output" || fail "what goes untested is said"

echo "packages.sh: all checks hold"
