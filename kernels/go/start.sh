# Unpacks the Go kernel into the directory that execd made for it, builds and becomes it. A build
# that was done before comes from the cache of Go. execd removes the directory in the end.
exec 4<&-
dir=$OSB_KERNEL_DIR
[ -n "$HOME$GOCACHE$XDG_CACHE_HOME" ] || export GOCACHE="${TMPDIR:-/tmp}/osb-go-cache"
mkdir "$dir/osb" || exit 1
#files
printf 'module osbkernel\n\ngo 1.20\n' >"$dir/go.mod"
(cd "$dir" && GOFLAGS=-mod=mod GOTOOLCHAIN=local GOWORK=off go build -o kernel . ) || exit 1
exec "$dir/kernel" "$dir"
