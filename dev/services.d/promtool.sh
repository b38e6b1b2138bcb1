# shellcheck shell=bash
# Tools are programs that tests call, and no servers: dev/services tool NAME prints the path of one. promtool checks alert
# rules. It comes out of Debian's package prometheus, which is unpacked and not installed: no server is started or enabled.

promtool_find() {
	local dir=$STATE/tools/promtool
	command -v promtool || { [[ -x $dir/promtool ]] && echo "$dir/promtool"; }
}

promtool_get() {
	local dir=$STATE/tools/promtool
	mkdir -p "$dir"
	promtool_unpack "$dir" >>"$dir/log" 2>&1 || promtool_docker "$dir" ||
		die "no promtool on this machine" "PATH has none, Debian's package prometheus could not be unpacked (see $dir/log), and no Docker engine answers" \
			"install promtool, or start Docker, then again: dev/services tool promtool"
}

# promtool_unpack needs no root: apt-get downloads, and dpkg unpacks, for anybody.
promtool_unpack() {
	local dir=$1 package
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	(
		cd "$dir" && rm -rf ./*.deb unpacked || exit 1
		apt-get download prometheus || { apt-get update && apt-get download prometheus; } || exit 1
		package=$(echo ./prometheus_*.deb)
		dpkg-deb -x "$package" unpacked && mv unpacked/usr/bin/promtool promtool.new && rm -rf ./*.deb unpacked &&
			./promtool.new --version && mv promtool.new promtool
	)
}

# promtool_docker writes a program of the same name that runs the one in Prometheus's image.
promtool_docker() {
	docker_answers || return 1
	cat >"$1/promtool.new" <<-'EOF'
		#!/bin/sh
		exec docker run --rm -v "$PWD:$PWD:ro" -w "$PWD" --entrypoint promtool prom/prometheus:v2.53.5 "$@"
	EOF
	chmod +x "$1/promtool.new" && mv "$1/promtool.new" "$1/promtool"
}
