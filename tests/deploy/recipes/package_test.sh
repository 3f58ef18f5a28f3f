#!/bin/bash
# The Debian package of the command: built by CPack, installed into a root that mmdebstrap makes of Debian packages alone, and the demo run
# there. That root never saw the sources: what the package needs besides, it names.
#
#   package_test.sh BUILD_FOLDER
#
# Exit status 77: no mmdebstrap or dpkg-shlibdeps, no root, or no archive of Debian packages to be reached.
set -u
build=$(readlink -f "$1")
for program in mmdebstrap dpkg-shlibdeps cpack chroot; do
  command -v $program >/dev/null || PATH=$PATH:/usr/sbin command -v $program >/dev/null || { echo "skipped: no $program"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: making a root wants root"; exit 77; }
PATH=$PATH:/usr/sbin
folder=$(mktemp -d /var/tmp/millrace_package_XXXXXX)
end() {
  umount -l "$folder/root/proc" "$folder/root/dev/shm" 2>/dev/null
  rm -rf "$folder"
  exit "$1"
}
trap 'end 1' INT TERM
fail() { echo "FAILED: $*"; end 1; }

(cd "$folder" && cpack --config "$build/CPackConfig.cmake" -G DEB -D CPACK_COMPONENTS_ALL=runtime -B "$folder/packages") >"$folder/cpack.log" 2>&1 ||
  fail "cpack: $(tail -n 20 "$folder/cpack.log")"
package=$(ls "$folder"/packages/*.deb)
needs=$(dpkg-deb -f "$package" Depends)
echo "$(basename "$package"), $(stat -c %s "$package") bytes, needs $needs"
dpkg-deb -c "$package" >"$folder/listing"
grep -q ' ./usr/bin/millrace$' "$folder/listing" || fail "no /usr/bin/millrace in it: $(cat "$folder/listing")"
! grep -E '\.(h|a|cpp)$' "$folder/listing" || fail "it holds sources"

release=$(. /etc/os-release && echo "$VERSION_CODENAME")
names=$(echo "$needs" | sed 's/([^)]*)//g; s/|[^,]*//g; s/ //g')
mmdebstrap --quiet --variant=minbase --include="$names" "$release" "$folder/root" >"$folder/mmdebstrap.log" 2>&1 || {
  grep -qiE "could not resolve|failed to fetch|unable to fetch|connection" "$folder/mmdebstrap.log" && { echo "skipped: no archive of Debian packages: $(tail -n 2 "$folder/mmdebstrap.log")"; end 77; }
  fail "mmdebstrap: $(tail -n 20 "$folder/mmdebstrap.log")"
}
cp "$package" "$folder/root/tmp/"
mount -t proc proc "$folder/root/proc" && mount -t tmpfs tmpfs "$folder/root/dev/shm" || fail "mounting /proc and /dev/shm of the root"
chroot "$folder/root" dpkg -i "/tmp/$(basename "$package")" >"$folder/dpkg.log" 2>&1 || fail "dpkg: $(cat "$folder/dpkg.log")"
chroot "$folder/root" env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 bash -c 'cd /root && /usr/share/millrace/demo.sh' >"$folder/demo.log" 2>&1 ||
  fail "the demo: $(tail -n 30 "$folder/demo.log")"
grep -E "test accuracy|run folder" "$folder/demo.log"
chroot "$folder/root" dpkg -r millrace >>"$folder/dpkg.log" 2>&1 || fail "dpkg -r: $(cat "$folder/dpkg.log")"
[ ! -e "$folder/root/usr/bin/millrace" ] && [ ! -e "$folder/root/usr/share/millrace" ] || fail "removed, and still there"
echo "installed, run and removed in a root of $(chroot "$folder/root" dpkg-query -W | wc -l) Debian packages"
end 0
