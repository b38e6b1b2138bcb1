//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// daemonScript starts and ends a daemon that goes on between the lines of a
// script: daemon start [FLAGS], daemon kill SIGNAL, daemon gone.
const daemonScript = `#!/bin/sh
case $1 in
start)
	shift
	rm -f up.address
	pawl up --listen 127.0.0.1:0 "$@" >>up.out 2>up.err &
	echo $! >up.pid
	for _ in $(seq 300); do
		sed -n 's/.* message=started .* listen=\([0-9.:]*\) .*/\1/p' up.err >up.address
		[ -s up.address ] && exit 0
		alive "$(cat up.pid)" || break
		sleep 0.05
	done
	cat up.err >&2
	exit 1
	;;
kill) kill -"$2" "$(cat up.pid)" ;;
gone)
	for _ in $(seq 300); do
		alive "$(cat up.pid)" || exit 0
		sleep 0.05
	done
	exit 1
	;;
esac
`

// endDaemon ends the daemon that a script may have left.
func endDaemon(e *testscript.Env) {
	e.Defer(func() {
		text, err := os.ReadFile(filepath.Join(e.WorkDir, "up.pid"))
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// patience is how long a script waits for something to become true: long, because other tests run beside, perhaps on
// slow cores.
const patience = time.Minute

// await waits until a page of the daemon says something: await PATH REGEXP. The
// status comes before the text.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await path regexp")
	}
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	client := http.Client{Timeout: 2 * time.Second}
	said := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		reply, err := client.Get("http://" + strings.TrimSpace(ts.ReadFile("up.address")) + args[0])
		if err != nil {
			said = err.Error()
			continue
		}
		text, _ := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		if said = fmt.Sprintf("%d\n%s", reply.StatusCode, text); want.MatchString(said) {
			return
		}
	}
	ts.Fatalf("%s does not say %s within %v:\n%s\n%s", args[0], args[1], patience, said, ts.ReadFile("up.err"))
}

// appears waits until a file holds a text: appears FILE REGEXP.
func appears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: appears file regexp")
	}
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	text := []byte{}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if text, _ = os.ReadFile(ts.MkAbs(args[0])); want.Match(text) {
			return
		}
	}
	ts.Fatalf("%s does not hold %s within %v:\n%s", args[0], args[1], patience, text)
}

// serve starts a web service and sets a variable to its address: serve VARIABLE.
// It writes what comes to hook.log, and answers what the first line of the body
// says: a status, and what Retry-After is to be. From the second time on it is
// content with a message whose body ends with "once".
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve variable")
	}
	log, err := os.Create(ts.MkAbs("hook.log"))
	ts.Check(err)
	var mu sync.Mutex
	seen := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := r.Header
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(log, "%s %s %s %s %s %s %s %s %q\n", r.Method, r.URL, h.Get("Pawl-Id"), h.Get("Pawl-Topic"),
			h.Get("Pawl-Key"), h.Get("Pawl-Attempt"),
			h.Get("Pawl-Headers"), h.Get("Authorization"), body)
		words := strings.Fields(string(body))
		id := h.Get("Pawl-Id")
		if len(words) == 0 || words[len(words)-1] == "once" && seen[id] {
			return
		}
		seen[id] = true
		status, err := strconv.Atoi(words[0])
		if err != nil {
			return
		}
		if len(words) > 1 && words[1] != "once" {
			w.Header().Set("Retry-After", words[1])
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintln(w, "because of", id)
	}))
	ts.Defer(func() {
		server.Close()
		_ = log.Close()
	})
	ts.Setenv(args[0], server.URL)
}
