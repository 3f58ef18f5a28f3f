#!/bin/bash
# The Debian packages, built by CPack, installed into a root that mmdebstrap makes of Debian packages alone, and used there. That root never
# saw the sources: what a package needs besides, it names.
#
#   millrace          the demo
#   millrace-xrt      trains on an emulated board behind XRT to the weights of the board without it
#   libmillrace-dev   the examples for users of the libraries, and a program that reads networks of other frameworks, are compiled and run
#
#   package_test.sh BUILD_FOLDER
#
# Exit status 77: no mmdebstrap or dpkg-shlibdeps, no root, or no archive of Debian packages to be reached.
set -u
build=$(readlink -f "$1")
sources=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../../..")
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

(cd "$folder" && cpack --config "$build/CPackConfig.cmake" -G DEB -B "$folder/packages") >"$folder/cpack.log" 2>&1 ||
  fail "cpack: $(tail -n 20 "$folder/cpack.log")"
package() { echo "$folder/packages/$1"_*.deb; }
[ -e "$(package millrace)" ] && [ -e "$(package libmillrace-dev)" ] || fail "packages are missing: $(ls "$folder/packages")"
needs=
for file in "$folder"/packages/*.deb; do
  echo "$(basename "$file"), $(stat -c %s "$file") bytes, needs $(dpkg-deb -f "$file" Depends)"
  needs+=", $(dpkg-deb -f "$file" Depends)"
done
dpkg-deb -c "$(package millrace)" >"$folder/listing"
grep -q ' ./usr/bin/millrace$' "$folder/listing" || fail "no /usr/bin/millrace in it: $(cat "$folder/listing")"
! grep -E '\.(h|a|cpp)$' "$folder/listing" || fail "the command's package holds sources"

release=$(. /etc/os-release && echo "$VERSION_CODENAME")
names=$(echo "${needs#, }, g++, make" | sed 's/([^)]*)//g; s/|[^,]*//g; s/ //g; s/\(^\|,\)\(lib\)\?millrace[^,]*//g; s/,,*/,/g')
mmdebstrap --quiet --variant=minbase --include="$names" "$release" "$folder/root" >"$folder/mmdebstrap.log" 2>&1 || {
  grep -qiE "could not resolve|failed to fetch|unable to fetch|connection" "$folder/mmdebstrap.log" && { echo "skipped: no archive of Debian packages: $(tail -n 2 "$folder/mmdebstrap.log")"; end 77; }
  fail "mmdebstrap: $(tail -n 20 "$folder/mmdebstrap.log")"
}
mount -t proc proc "$folder/root/proc" && mount -t tmpfs tmpfs "$folder/root/dev/shm" || fail "mounting /proc and /dev/shm of the root"
inside() { chroot "$folder/root" env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 bash -c "$1"; }
install_package() {
  cp "$(package "$1")" "$folder/root/tmp/"
  chroot "$folder/root" dpkg -i "/tmp/$(basename "$(package "$1")")" >"$folder/dpkg.log" 2>&1 || fail "dpkg: $(cat "$folder/dpkg.log")"
}

install_package millrace
inside 'cd /root && /usr/share/millrace/demo.sh' >"$folder/demo.log" 2>&1 || fail "the demo: $(tail -n 30 "$folder/demo.log")"
grep -E "^test accuracy|run folder" "$folder/demo.log"

train() { inside "cd /root && millrace train --model digits-cnn --data digits --cluster cpu+$1 --steps 3 --evaluate-every 0 --out $1 --json" >"$folder/$1.log" 2>&1; }
digest() { grep -o '"weights_digest": *"[0-9a-f]*"' "$folder/$1.log" | tail -n 1; }
if [ -e "$(package millrace-xrt)" ]; then
  ! train xrt-emulated-fpga || fail "boards behind XRT work without millrace-xrt"
  grep -qi xrt "$folder/xrt-emulated-fpga.log" || fail "without millrace-xrt: $(cat "$folder/xrt-emulated-fpga.log")"
  install_package millrace-xrt
  for board in emulated-fpga xrt-emulated-fpga; do
    train $board || fail "training on $board: $(tail -n 10 "$folder/$board.log")"
  done
  [ -n "$(digest emulated-fpga)" ] && [ "$(digest emulated-fpga)" = "$(digest xrt-emulated-fpga)" ] ||
    fail "digests: '$(digest emulated-fpga)' and '$(digest xrt-emulated-fpga)' behind XRT"
  echo "a board behind XRT trains to the same weights: $(digest xrt-emulated-fpga)"
fi

install_package libmillrace-dev
cp -r "$sources/deploy/examples" "$folder/root/root/examples"
cat >>"$folder/root/root/examples/CMakeLists.txt" <<'END'
millrace_example(import "no.onnx.*no.keras" Millrace::exchange)
END
cat >"$folder/root/root/examples/import.cpp" <<'END'
#include <iostream>

#include "core/base/error.h"
#include "core/exchange/keras_import.h"
#include "core/exchange/onnx_import.h"

template <class Import>
void say_why_not(Import import) {
  try {
    import();
  } catch (const millrace::Error& error) {
    std::cout << error.what() << '\n';
  }
}

int main() {
  say_why_not([] { millrace::import_onnx("no.onnx"); });
  say_why_not([] { millrace::import_keras("no.keras"); });
}
END
inside 'cd /root && cmake -S examples -B built -DCMAKE_BUILD_TYPE=Release && cmake --build built && ctest --test-dir built --output-on-failure' \
  >"$folder/examples.log" 2>&1 || fail "the examples: $(tail -n 40 "$folder/examples.log")"
grep -E "tests passed" "$folder/examples.log"

for name in libmillrace-dev millrace-xrt millrace; do
  [ ! -e "$(package $name)" ] || chroot "$folder/root" dpkg -r $name >>"$folder/dpkg.log" 2>&1 || fail "dpkg -r $name: $(cat "$folder/dpkg.log")"
done
for place in bin/millrace share/millrace include/millrace lib/cmake/Millrace; do
  [ ! -e "$folder/root/usr/$place" ] || fail "removed, and /usr/$place is still there"
done
echo "installed, run and removed in a root of $(chroot "$folder/root" dpkg-query -W | wc -l) Debian packages"
end 0
