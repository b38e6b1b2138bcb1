# shellcheck shell=bash
# Redis: one server on loopback, with its append-only file written out every second, as in production.

REDIS_BIN="" # redis-server, once found

redis_package() { echo redis-server; }

redis_find() { REDIS_BIN=$(command -v redis-server); }
redis_find_failed() { echo "PATH has no redis-server"; }
redis_env() { echo "export PAWL_TEST_REDIS='redis://$1'"; }

redis_up() {
	local dir=$STATE/redis port
	if [[ $(redis_state) == paused ]]; then redis_continue; fi
	if [[ $(redis_state) == down ]]; then
		redis_find || die "Redis is gone" "$(redis_find_failed)" "install it again, or dev/services clean"
		mkdir -p "$dir/data"
		port=$(keep_port redis)
		(
			cd "$dir/data" && exec setsid "$REDIS_BIN" --port "$port" --bind 127.0.0.1 --dir "$dir/data" \
				--appendonly yes --appendfsync everysec --save "" --maxmemory-policy noeviction >>"$dir/log" 2>&1 </dev/null 8>&- 9>&-
		) &
		echo $! >"$dir/pid"
	fi
	redis_await
}

# redis_await waits until the server answers, with its data loaded.
redis_await() {
	local end=$((SECONDS + 60))
	until redis_answers; do
		[[ $(redis_state) != down ]] || redis_broken "it ended"
		[[ $SECONDS -lt $end ]] || redis_broken "it did not answer for a minute"
		sleep 0.05
	done
}

redis_answers() {
	# shellcheck disable=SC2016 # the inner shell expands it
	timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && printf "PING\r\nQUIT\r\n" >&3 && grep -q "^+PONG" <&3' \
		"$(<"$STATE/redis/port")" 2>/dev/null
}

redis_broken() {
	tail -n 8 "$STATE/redis/log" | sed 's/^/  | /' >&2
	die "Redis did not start" "$1; its log ends as above" "read $STATE/redis/log, or begin again: dev/services clean"
}

# redis_pid prints the process. Its port in what it calls itself tells it from a stranger that got its number.
redis_pid() {
	local pid args
	pid=$(cat "$STATE/redis/pid" 2>/dev/null) || return 0
	args=$(ps -ww -o args= -p "$pid")
	[[ $args == *redis-server*":$(<"$STATE/redis/port")"* || $args == *"$STATE/redis/data"* ]] || return 0
	echo "$pid"
}

redis_signal() {
	local pid
	pid=$(redis_pid)
	[[ -n $pid ]] || die "Redis is not running" "there is no process to send SIG$1 to" "dev/services up redis"
	kill "-$1" "$pid" 2>/dev/null || true
	case $1 in
	KILL) wait_gone "$pid" ;;
	STOP) wait_paused "$pid" ;;
	esac
}

redis_down() {
	local pid
	pid=$(redis_pid)
	[[ -n $pid ]] || return 0
	kill -TERM "$pid" 2>/dev/null || true
	kill -CONT "$pid" 2>/dev/null || true
	wait_gone "$pid" || redis_signal KILL
}

redis_clean() {
	[[ -z $(redis_pid) ]] || redis_signal KILL
	rm -rf "${STATE:?}/redis"
}

redis_state() {
	local pid
	pid=$(redis_pid)
	case $([[ -z $pid ]] || ps -o stat= -p "$pid") in
	"") echo down ;;
	T*) echo paused ;;
	*) echo up ;;
	esac
}

redis_kill() { redis_signal KILL; }
redis_pause() { redis_signal STOP; }
redis_continue() { redis_signal CONT; }
redis_restart() { redis_down && redis_up; }
redis_where() { echo "127.0.0.1:$(<"$STATE/redis/port")"; }
redis_describe() {
	redis_find
	echo "$(redis_where)  $("$REDIS_BIN" --version | sed -E 's/.* v=([0-9.]+).*/\1/') as $(id -un), data and log in $STATE/redis"
}
