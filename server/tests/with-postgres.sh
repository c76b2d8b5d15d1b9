#!/bin/bash
# Runs a command with a PostgreSQL cluster of its own, in a temporary folder, on a free port of this machine only. The command
# finds it in RECOUNT_TEST_POSTGRES, and tests that see that variable use it instead of SQLite.
# Says loudly and succeeds where the programs are missing. As root, the server runs as the user postgres: it refuses root.
set -eu -o pipefail

programs=$(pg_config --bindir 2>/dev/null || true)
for folder in "$programs" /usr/lib/postgresql/*/bin; do
    [ -x "$folder/initdb" ] && programs=$folder
done
if [ ! -x "$programs/initdb" ]; then
    echo "SKIPPED, there is no PostgreSQL on this machine: $*" >&2
    exit 0
fi

folder=$(mktemp -d)
as_owner=()
if [ "$(id -u)" = 0 ]; then
    chown postgres "$folder"
    as_owner=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
stop() {
    "${as_owner[@]}" "$programs/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap stop EXIT

cd "$folder"
"${as_owner[@]}" "$programs/initdb" -D data -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >/dev/null
# What is tested are crashes of Recount, not of the machine, so that nothing waits for the disk.
"${as_owner[@]}" tee -a data/postgresql.conf >/dev/null <<SETTINGS
listen_addresses = '127.0.0.1'
unix_socket_directories = '$folder'
max_connections = 400
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
log_min_messages = error
SETTINGS
for _ in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 12000))
    "${as_owner[@]}" "$programs/pg_ctl" -D data -o "-p $port" -w -l log start >/dev/null && break
    port=
done
[ -n "$port" ] || { echo "PostgreSQL does not start:" >&2; cat log >&2; exit 1; }
cd "$OLDPWD"
export RECOUNT_TEST_POSTGRES="postgres://postgres@127.0.0.1:$port/postgres"
"$@"
