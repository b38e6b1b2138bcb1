//go:build unix

package e2e

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestTraces: a message is sent by one process, fails in another, and a person finds its trace.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	got := ""
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		text, _ := io.ReadAll(body)
		mu.Lock()
		got += r.URL.Path + " " + r.Header.Get("X-Auth") + " " + string(text)
		mu.Unlock()
	}))
	defer collector.Close()
	in := newIncident(t, "topics: {mail: {handler: exec, command: exit 65}}\ntraces:\n  otlp: "+collector.URL+
		"\n  sample: 0\n  headers: {X-Auth: secret}\n  link: https://traces.example.com/{trace_id}\n")
	in.must("pawl send mail hello --id m1; pawl work mail --exec 'echo $PAWL_TRACEPARENT >seen; exit 65' --until-empty")
	mu.Lock()
	for _, want := range []string{"/v1/traces secret ", "send mail", "process mail", "settle mail", "decision", "m1"} {
		if !strings.Contains(got, want) {
			t.Errorf("the collector did not get %q", want)
		}
	}
	mu.Unlock()
	id := strings.Split(in.must("cat seen"), "-")[1]
	for _, command := range []string{"pawl explain m1", "pawl dead show m1", "pawl explain m1 -o json",
		"pawl dead show m1 -o json"} {
		if out := in.must(command); !strings.Contains(out, "https://traces.example.com/"+id) {
			t.Errorf("%s says\n%s", command, out)
		}
	}
}
