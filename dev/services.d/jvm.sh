# shellcheck shell=bash
# Java and jars, for servers that are written in Java. Maven fetches the jars once for all checkouts of a user.

JAVA=""      # the program, once found
JARS=""      # the folder of the jars, once found
JVM_LACKS="" # why one of them was not found

# java_find looks for a Java of that version or a later one: JAVA_HOME, the PATH, then where systems keep theirs.
java_find() {
	local java folders=()
	[[ -z ${JAVA_HOME:-} ]] || folders+=("$JAVA_HOME/bin/java")
	java=$(command -v java) && folders+=("$java")
	mapfile -t -O "${#folders[@]}" folders < <(printf '%s\n' "${PAWL_JVM_HOME:-/usr/lib/jvm}"/*/bin/java /opt/homebrew/opt/openjdk*/bin/java | sort -rV)
	for java in "${folders[@]}"; do
		if [[ -x $java && $(java_version "$java") -ge $1 ]]; then
			JAVA=$java
			return 0
		fi
	done
	JVM_LACKS="neither JAVA_HOME nor PATH nor /usr/lib/jvm has Java $1 or later"
	return 1
}

# java_version prints the first number of a version, and 0 for what is no Java.
java_version() {
	local version
	version=$("$1" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p')
	echo "${version:-0}"
}

# jars_find SERVER VERSION LOG finds the jars of dev/services.d/SERVER.pom.xml, or fetches them.
jars_find() {
	JARS=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/pawl/$1-$2
	[[ -d $JARS ]] || jars_fetch "$@"
}

# jars_fetch moves the folder to its place when it is complete: another checkout may be fetching the same, and whoever is
# first wins. What an interrupted one left behind goes after an hour.
jars_fetch() {
	local name=$1-$2 log=$3 cache=${JARS%/*} fresh
	if ! command -v mvn >/dev/null; then
		JVM_LACKS="the jars of $name are not in $cache, and Maven, which fetches them, is missing"
		return 1
	fi
	echo "services: fetching the jars of $name with Maven" >&2
	JVM_LACKS="Maven could not fetch the jars of $name (see $log)"
	mkdir -p "$cache" && fresh=$(mktemp -d "$cache/.$name.XXXXXX") || return 1
	find "$cache" -maxdepth 1 -name ".$name.*" -mmin +60 -exec rm -rf {} +
	mvn -q -B -C -Dstyle.color=never -f "$ROOT/dev/services.d/$1.pom.xml" -Dversion.of.server="$2" \
		org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$fresh/$name" \
		</dev/null >>"$log" 2>&1 8>&- 9>&- && mv "$fresh/$name" "$cache/" 2>>"$log" || true
	rm -rf "$fresh"
	[[ -d $JARS ]]
}
