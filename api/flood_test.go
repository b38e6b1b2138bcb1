package api_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/api"
)

// TestFloods: a body of many small values costs neither many times its size nor time that grows with its square, and is
// refused. Without bounds each of these took from half a minute to for ever, or gigabytes.
func TestFloods(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{Access: api.Access{Tokens: tokens}}).as("secret-admin")
	many := func(before, item string, n int, after string) string {
		return before + strings.Repeat(item+",", n-1) + item + after
	}
	var names strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&names, `,"%x":""`, i)
	}
	for _, f := range []struct {
		path, kind, body string
		status           int
	}{
		{"/v1/messages", "", many("[", "1", 2_000_000, "]"), http.StatusRequestEntityTooLarge},
		{"/v1/messages", "application/x-ndjson", strings.Repeat("1\n", 2_000_000), http.StatusRequestEntityTooLarge},
		{"/v1/messages", "", `{"a":1` + names.String() + "}", http.StatusUnprocessableEntity},
		{"/v1/messages", "", `{"body":"` + strings.Repeat("é", 1_000_000) + "\xff\"}", http.StatusBadRequest},
		{"/v1/messages", "", many("[", `{"a":1,"b":1}`, 10_000, "]"), http.StatusUnprocessableEntity},
		{"/v1/extend", "", many(`{"tokens":[`, `""`, 2_000_000, "]}"), http.StatusRequestEntityTooLarge},
		{"/v1/extend", "", `{"tokens":["` + strings.Repeat("x", 1_000_000) + `"]}`, http.StatusUnprocessableEntity},
		{"/v1/settle", "", many(`{"settlements":[`, `{}`, 2_000_000, "]}"), http.StatusRequestEntityTooLarge},
		{"/v1/settle", "", `{"settlements":[{"token":"x","verdict":"fail","attrs":{"a":""` + names.String() + "}}]}",
			http.StatusRequestEntityTooLarge},
		{"/v1/lease", "", `{"a":1` + names.String() + "}", http.StatusUnprocessableEntity},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var headers []string
		if f.kind != "" {
			headers = append(headers, "Content-Type: "+f.kind)
		}
		d.want(f.status, d.post(f.path, f.body, headers...))
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 150 {
			t.Errorf("%s %.40s: %d MiB for a body of %d", f.path, f.body, took, len(f.body)>>20)
		}
	}
}
