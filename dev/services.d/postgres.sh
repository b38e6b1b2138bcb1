# shellcheck shell=bash
# PostgreSQL: a cluster of its own on a port of its own, durable as in production.
# Every service has the functions NAME_ package, find, find_failed, env for both ways (native and Docker), and for the
# native way up, down, restart, kill, pause, continue, clean, and state, where, describe, which print.

PG_BIN="" # where the programs are, once found

postgres_package() { echo postgresql; }

# postgres_find looks on the PATH, then where Debian and others keep the programs, newest version first.
postgres_find() {
	local dir folders=()
	dir=$(command -v pg_ctl) && folders+=("$(dirname "$(realpath "$dir")")")
	mapfile -t -O "${#folders[@]}" folders < <(printf '%s\n' "${PAWL_POSTGRES_HOME:-/usr/lib/postgresql}"/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin | sort -rV)
	for dir in "${folders[@]}"; do
		if [[ -x $dir/pg_ctl && -x $dir/initdb && -x $dir/postgres ]]; then
			PG_BIN=$dir
			return 0
		fi
	done
	return 1
}

postgres_find_failed() { echo "neither PATH nor /usr/lib/postgresql has initdb, pg_ctl and postgres"; }

# postgres_env WHERE: the tests' user is an ordinary one that may create databases, so that a test notices when a store
# asks for more. The administrator gets in by the unix socket, which only root and the server's user can open.
postgres_env() {
	local admin="postgres://postgres:pawl@$1/postgres?sslmode=disable"
	if [[ -s $STATE/postgres/socket ]]; then
		admin="postgres://postgres@/postgres?host=$(<"$STATE/postgres/socket")&port=${1##*:}"
		echo "export PAWL_TEST_POSTGRES_LOG='$STATE/postgres/log'"
	fi
	echo "export PAWL_TEST_POSTGRES='postgres://pawl:pawl@$1/pawl?sslmode=disable'"
	echo "export PAWL_TEST_POSTGRES_ADMIN='$admin'"
}

# pg runs one of PostgreSQL's programs as the server's user: initdb and postgres refuse root.
pg() {
	local program=$1
	shift
	[[ -n $PG_BIN ]] || postgres_find || die "PostgreSQL is gone" "$(postgres_find_failed)" "install it again, or dev/services clean"
	as_user "$(postgres_user)" "$PG_BIN/$program" "$@"
}

postgres_user() {
	if [[ $(id -u) -ne 0 ]]; then
		id -un
	elif id postgres >/dev/null 2>&1; then
		echo postgres
	else
		echo nobody
	fi
}

# postgres_init makes the cluster beside its final place, and moves it there when it is complete. It is called where bash
# does not stop at an error, hence the chain.
postgres_init() {
	local dir=$STATE/postgres user data
	user=$(postgres_user)
	data=$dir/data
	chown "$user" "$dir"
	if ! as_user "$user" test -w "$dir"; then # a checkout that only root can enter, say
		data=$(mktemp -d /var/tmp/pawl-postgres.XXXXXX)/data
		chown "$user" "${data%/data}"
	fi
	rm -rf "$data" "$data.new" &&
		pg initdb -D "$data.new" -U postgres -E UTF8 --locale=C --auth-local=trust --auth-host=scram-sha-256 &&
		cat "$ROOT/dev/services.d/postgres.conf" >>"$data.new/postgresql.conf" &&
		pg postgres --single -j -c exit_on_error=true -D "$data.new" postgres <"$ROOT/dev/services.d/postgres.sql" &&
		mv "$data.new" "$data" &&
		echo "$data" >"$dir/data.path" && return
	[[ $data == "$dir"/* ]] || rm -rf "${data%/data}"
	return 1
}

postgres_data() { cat "$STATE/postgres/data.path" 2>/dev/null; }

postgres_up() {
	local dir=$STATE/postgres port
	if [[ $(postgres_state) == paused ]]; then postgres_continue; fi
	if [[ $(postgres_state) == up ]]; then return; fi
	if [[ ! -s $dir/data.path ]]; then
		postgres_init >>"$dir/log" 2>&1 8>&- 9>&- || postgres_broken "initdb failed"
	fi
	port=$(keep_port postgres)
	if [[ ! -d $(cat "$dir/socket" 2>/dev/null) ]]; then
		mktemp -d /tmp/pawl-pg.XXXXXX >"$dir/socket" # in /tmp, because the path of a socket may have 107 bytes only
		chown "$(postgres_user)" "$(<"$dir/socket")"
	fi
	postgres_forget_dead
	pg pg_ctl start -w -t 60 -D "$(postgres_data)" -o "-p $port -k $(<"$dir/socket")" \
		>>"$dir/log" 2>&1 8>&- 9>&- || postgres_broken "pg_ctl start failed"
}

# postgres_forget_dead removes the lock files of a killed server which init has not reaped yet (in a container perhaps
# never will): PostgreSQL takes such a zombie for a running server.
postgres_forget_dead() {
	local file
	file=$(postgres_data)/postmaster.pid
	if [[ -s $file && -z $(alive "$(head -n 1 "$file")") ]]; then rm -f "$file" "$(<"$STATE/postgres/socket")"/.s.PGSQL.*; fi
}

postgres_broken() {
	tail -n 8 "$STATE/postgres/log" | sed 's/^/  | /' >&2
	die "PostgreSQL did not start" "$1; its log ends as above" "read $STATE/postgres/log, or begin again: dev/services clean"
}

# postgres_pids prints the server's processes, the postmaster first. The data folder in its arguments tells it from a
# stranger that got the number of a server which died.
postgres_pids() {
	local data pid
	data=$(postgres_data) || return 0
	pid=$(head -n 1 "$data/postmaster.pid" 2>/dev/null) || return 0
	[[ " $(ps -o args= -p "$pid") " == *" $data "* ]] || return 0
	echo "$pid"
	ps -o pid= --ppid "$pid" || true
}

# postgres_signal stops the postmaster before its children and continues it after them, so that none is born unseen.
postgres_signal() {
	local pids pid
	mapfile -t pids < <(postgres_pids)
	[[ ${#pids[@]} -gt 0 ]] || die "PostgreSQL is not running" "there is no process to send SIG$1 to" "dev/services up postgres"
	case $1 in
	CONT) for pid in "${pids[@]:1}" "${pids[0]}"; do kill -CONT "$pid" 2>/dev/null || true; done ;;
	*)
		kill "-STOP" "${pids[0]}"
		mapfile -t pids < <(postgres_pids)
		kill "-$1" "${pids[@]}" 2>/dev/null || true
		;;
	esac
	[[ $1 != KILL ]] || wait_gone "${pids[@]}"
}

postgres_kill() { postgres_signal KILL; }
postgres_pause() { postgres_signal STOP; }
postgres_continue() { postgres_signal CONT; }
postgres_restart() { postgres_down && postgres_up; }

postgres_down() {
	local dir=$STATE/postgres
	case $(postgres_state) in
	down) return ;;
	paused) postgres_continue ;;
	esac
	pg pg_ctl stop -w -t 30 -m fast -D "$(postgres_data)" >>"$dir/log" 2>&1 || postgres_kill
}

postgres_clean() {
	postgres_down
	local data
	if data=$(postgres_data) && [[ $data == /var/tmp/pawl-postgres.*/data ]]; then rm -rf "$(dirname "$data")"; fi
	rm -rf "$(cat "$STATE/postgres/socket" 2>/dev/null || echo /tmp/pawl-pg.none)" "${STATE:?}/postgres"
}

postgres_state() {
	local pid
	pid=$(postgres_pids | head -n 1)
	case $([[ -z $pid ]] || ps -o stat= -p "$pid") in
	"") echo down ;;
	T*) echo paused ;;
	*) echo up ;;
	esac
}

postgres_where() { echo "127.0.0.1:$(<"$STATE/postgres/port")"; }

postgres_describe() {
	echo "$(postgres_where)  $(pg postgres --version | cut -d' ' -f3) as $(postgres_user), log in $STATE/postgres/log"
}
