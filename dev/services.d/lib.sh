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

# ports_taken PORT COUNT reports whether somebody listens on any of so many ports in a row.
ports_taken() {
	local port
	for ((port = $1; port < $1 + $2; port++)); do
		if port_taken "$port"; then return 0; fi
	done
	return 1
}

# keep_port SERVICE [LISTENED [LEFT]] prints the first port of a service: the one that it had before, or a new one where
# somebody else took one of its LISTENED ports meanwhile. LEFT more after them are free at first: tests use them.
# Ports are below the range that the kernel hands to outgoing connections.
keep_port() {
	local file=$STATE/$1/port listened=${2:-1} left=${3:-0} port
	if port=$(cat "$file" 2>/dev/null) && ! ports_taken "$port" "$listened"; then
		echo "$port"
		return
	fi
	port=$((20000 + RANDOM % 12000))
	while ports_taken "$port" $((listened + left)); do port=$((20000 + RANDOM % 12000)); done
	echo "$port" | tee "$file"
}

# in_short makes one line of the states of several processes: "up" where all are, else like "up/down/up".
in_short() {
	awk '{line = line (NR > 1 ? "/" : "") $0; mixed = mixed || (NR > 1 && $0 != last); last = $0} END {print mixed ? line : last}'
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

# wait_paused waits up to ten seconds until none of the given processes runs any more.
wait_paused() {
	for _ in {1..200}; do
		ps -o stat= -p "$(IFS=, && echo "$*")" | grep -qv '^[TZ]' || return 0
		sleep 0.05
	done
	return 1
}

# apt_install installs packages, named in one word, and finds the service again. It changes the machine for root only: a
# container, or CI.
apt_install() {
	local service=$1 package=$2 log=$STATE/$1/log packages
	read -ra packages <<<"$package"
	if ! command -v apt-get >/dev/null; then
		APT_REFUSAL="there is no apt-get to install $package with"
	elif [[ $(id -u) -ne 0 ]]; then
		APT_REFUSAL="only root can install $package with apt-get"
	else
		echo "services: installing Debian's package $package" >&2
		APT_REFUSAL="apt-get could not install $package (see $log)"
		apt_get_install "${packages[@]}" >>"$log" 2>&1 8>&- 9>&- || return 1
		APT_REFUSAL="Debian's package $package is installed"
		"${service}_find"
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

# docker_members prints what compose calls a service, or one node of it, or all its nodes.
docker_members() {
	local service=$1 node
	if [[ $# -gt 1 ]]; then
		echo "$1-$2"
	elif [[ $(nodes "$service") == *" "* ]]; then
		for node in $(nodes "$service"); do echo "$service-$node"; done
	else
		echo "$service"
	fi
}

# docker_compose runs a command of compose on the members of a service: docker_compose "stop" SERVICE [NODE].
docker_compose() {
	local words members
	read -ra words <<<"$1"
	shift
	mapfile -t members < <(docker_members "$@")
	compose "${words[@]}" "${members[@]}" >>"$STATE/$1/log" 2>&1
}

# docker_up passes the ports on as PAWL_SERVICE_PORT, and those after it as PAWL_SERVICE_PORT_1 and so on.
docker_up() {
	local service=$1 port i
	port=$(docker_port "$service")
	export "PAWL_${service^^}_PORT=$port"
	for i in 1 2 3; do export "PAWL_${service^^}_PORT_$i=$((port + i))"; done
	docker_compose unpause "$@" || true
	docker_compose "up -d --wait" "$@" ||
		die "$service did not start in Docker" "$(tail -n 1 "$STATE/$service/log")" "read $STATE/$service/log"
}

docker_port() {
	local ports=()
	if [[ $(docker_state "$1") != down ]]; then
		cat "$STATE/$1/port"
		return
	fi
	! declare -F "${1}_ports" >/dev/null || read -ra ports <<<"$("${1}_ports")"
	keep_port "$1" "${ports[@]}"
}

docker_state() {
	local member
	docker_members "$1" | while read -r member; do
		case $(compose ps -a --format '{{.State}}' "$member" 2>/dev/null </dev/null) in
		running) echo up ;; paused) echo paused ;; *) echo down ;;
		esac
	done | in_short
}

docker_down() { docker_compose stop "$@"; }
docker_restart() { docker_down "$@" && docker_up "$@"; }
docker_kill() { docker_compose kill "$@"; }
docker_pause() { docker_compose pause "$@"; }
docker_continue() { docker_compose unpause "$@"; }
docker_where() { "${1}_where"; }
docker_describe() { echo "$(docker_where "$1")  Docker, log in $STATE/$1/log"; }
docker_clean() {
	docker_compose "rm -fsv" "$1"
	rm -rf "${STATE:?}/$1"
}
