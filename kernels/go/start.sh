# Unpacks the Go kernel into a directory of its own, builds and becomes it. A build that was done
# before comes from Go's cache.
exec 4<&-
dir=$(mktemp -d "${TMPDIR:-/tmp}/osb-go-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
[ -n "$HOME$GOCACHE$XDG_CACHE_HOME" ] || export GOCACHE="${TMPDIR:-/tmp}/osb-go-cache"
mkdir "$dir/osb"
#files
printf 'module osbkernel\n\ngo 1.20\n' >"$dir/go.mod"
(cd "$dir" && GOFLAGS=-mod=mod GOTOOLCHAIN=local GOWORK=off go build -o kernel . ) || exit 1
trap - EXIT
exec "$dir/kernel" "$dir"
