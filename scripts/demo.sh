#!/usr/bin/env bash
# Shows one import from end to end: a disk with a real file system, published as compressed qcow2 on a real web server,
# imported, and examined with the file system's own tools.
#   scripts/demo.sh IMPORTER
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

importer=$(realpath "${1:?usage: scripts/demo.sh IMPORTER}")
work=$(mktemp -d)
cleanup() {
    [ ! -f "$work/nginx.pid" ] || kill "$(cat "$work/nginx.pid")"
    rm -rf "$work"
}
trap cleanup EXIT
say() { printf '\n== %s\n' "$*"; }

say "a disk of 512 MiB with an ext4 file system full of files of this machine"
mkdir -p "$work/files/boot" "$work/files/etc" "$work/files/usr/bin" "$work/www"
head -c 9000000 /dev/urandom >"$work/files/boot/initrd.img"
cp -L /etc/os-release /etc/passwd "$work/files/etc/"
find /usr/bin -xdev -type f -readable -size -4096k | LC_ALL=C sort | sed -n 1,300p | xargs cp -t "$work/files/usr/bin"
mkfs.ext4 -q -F -L millrace -d "$work/files" "$work/disk.raw" 512M
qemu-img convert -f raw -O qcow2 -c "$work/disk.raw" "$work/www/disk.qcow2"
du -h --apparent-size "$work/disk.raw" "$work/www/disk.qcow2" | sed "s,$work/,,"

# nginx can't choose a port itself, so a few are tried. When it returns, it listens.
for _ in 1 2 3 4 5 6 7 8; do
    port=$((20000 + RANDOM % 20000))
    cat >"$work/nginx.conf" <<CONF
$([ "$(id -u)" -ne 0 ] || echo 'user root;')
pid $work/nginx.pid;
events {}
http {
    access_log $work/access.log;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    server { listen 127.0.0.1:$port; root $work/www; }
}
CONF
    nginx -p "$work" -e "$work/nginx.log" -c nginx.conf && break
done

url=http://127.0.0.1:$port/disk.qcow2
say "importer inspect $url"
"$importer" inspect "$url"
say "importer copy $url disk.raw"
"$importer" copy "$url" "$work/imported.raw" --report "$work/report.json"
cat "$work/report.json"
echo

say "what came out"
e2fsck -fn "$work/imported.raw"
mkdir "$work/found"
debugfs -R "rdump / $work/found" "$work/imported.raw" 2>"$work/debugfs.log" || { cat "$work/debugfs.log"; exit 1; }
rm -rf "$work/found/lost+found"
sums() { (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum); }
sums "$work/files" >"$work/before"
sums "$work/found" >"$work/after"
diff "$work/before" "$work/after"
cmp "$work/disk.raw" "$work/imported.raw"
echo "$(wc -l <"$work/after") files, each with the sha256 it had before; the disk is the same byte for byte"
echo "$(du -k "$work/imported.raw" | cut -f1) KiB allocated of $(($(stat -c %s "$work/imported.raw") / 1024)) KiB"
