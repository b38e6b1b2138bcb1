# shellcheck shell=bash
# What the services share: users, ports, packages, Docker. Sourced by dev/services, which sets ROOT and STATE.

APT_REFUSAL="nothing could be installed"

# as_user runs a command as a user, from a folder that anybody may enter. Only root changes user.
as_user() {
	local user=$1
	shift
	(
		cd /
		if [[ $(id -u) -eq 0 ]]; then
			exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
		fi
		exec "$@"
	)
}

port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# keep_port prints the port that a service had before, or a new one where somebody else took that one meanwhile.
# Ports are below the range that the kernel hands to outgoing connections.
keep_port() {
	local file=$STATE/$1/port port
	port=$(cat "$file" 2>/dev/null) || port=$((20000 + RANDOM % 12000))
	while port_taken "$port"; do port=$((20000 + RANDOM % 12000)); done
	echo "$port" | tee "$file"
}

# alive prints those of the given processes that exist and are no zombies.
alive() {
	[[ $# -eq 0 ]] || ps -o pid=,stat= -p "$(IFS=, && echo "$*")" | awk '$2 !~ /^Z/ {print $1}'
}

# wait_gone waits up to ten seconds until none of the given processes is left.
wait_gone() {
	for _ in {1..200}; do
		[[ -n $(alive "$@") ]] || return 0
		sleep 0.05
	done
	return 1
}

# apt_install installs a package and finds the service again. It changes the machine for root only: a container, or CI.
apt_install() {
	local service=$1 package=$2 log=$STATE/$1/log
	if ! command -v apt-get >/dev/null; then
		APT_REFUSAL="there is no apt-get to install $package with"
	elif [[ $(id -u) -ne 0 ]]; then
		APT_REFUSAL="only root can install $package with apt-get"
	else
		echo "services: installing Debian's package $package" >&2
		APT_REFUSAL="apt-get could not install $package (see $log)"
		apt_get_install "$package" >>"$log" 2>&1 8>&- 9>&- && "${service}_find"
		return
	fi
	return 1
}

# apt_get_install asks for new package lists only where the present ones do not serve.
apt_get_install() {
	local install=(apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=120)
	export DEBIAN_FRONTEND=noninteractive
	"${install[@]}" "$@" || { apt-get update && "${install[@]}" "$@"; }
}

docker_answers() { timeout 10 docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1; }

# compose runs docker compose for the set of servers of this state folder.
compose() {
	docker compose -p "pawl-$(cksum <<<"$STATE" | cut -d' ' -f1)" -f "$ROOT/dev/compose.yaml" "$@"
}

docker_up() {
	local service=$1
	export "PAWL_${service^^}_PORT=$(docker_port "$service")"
	compose unpause "$service" >>"$STATE/$service/log" 2>&1 || true
	compose up -d --wait "$service" >>"$STATE/$service/log" 2>&1 ||
		die "$service did not start in Docker" "$(tail -n 1 "$STATE/$service/log")" "read $STATE/$service/log"
}

docker_port() { if [[ $(docker_state "$1") == down ]]; then keep_port "$1"; else cat "$STATE/$1/port"; fi; }
docker_state() {
	case $(compose ps -a --format '{{.State}}' "$1" 2>/dev/null) in
	running) echo up ;; paused) echo paused ;; *) echo down ;;
	esac
}
docker_down() { compose stop "$1" >>"$STATE/$1/log" 2>&1; }
docker_restart() { docker_down "$1" && docker_up "$1"; }
docker_kill() { compose kill "$1" >>"$STATE/$1/log" 2>&1; }
docker_pause() { compose pause "$1" >>"$STATE/$1/log" 2>&1; }
docker_continue() { compose unpause "$1" >>"$STATE/$1/log" 2>&1; }
docker_where() { echo "127.0.0.1:$(<"$STATE/$1/port")"; }
docker_describe() { echo "$(docker_where "$1")  Docker, log in $STATE/$1/log"; }
docker_clean() {
	compose rm -fsv "$1" >/dev/null 2>&1
	rm -rf "${STATE:?}/$1"
}
