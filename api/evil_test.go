package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/api"
)

// evil is what no store likes in its texts.
var evil = []string{"%00", "%FF", "a%00b", "..%2f", "%F0%9F%98%80", strings.Repeat("x", 2000), "%20", "-1", "1e400", "NaN"}

var evilQueries = []string{"", "limit=", "cursor=", "topic=", "key=", "since=", "search=", "fingerprint=", "kind=",
	"prefix=", "older_than=", "attr=a=", "group_by=attr:"}

var evilBodies = []string{``, `{}`, `{"reason":"\u0000"}`, `{"ids":["\u0000"]}`, `{"plan_id":"\u0000"}`,
	`{"filter":{"topic":"\u0000","key":"\u0000","search":"\u0000"},"plan":true}`, `{"deadline_seconds":1e300}`,
	`{"for_seconds":1e300}`, `{"id":"\u0000","topic":"t"}`, `{"topic":"t","key":"\u0000","headers":{"a":"\u0000"}}`,
	`{"topics":["t"],"worker":"\u0000"}`, `{"topics":["t"],"limit":10000,"max_bytes":1}`, `{"tokens":["\u0000",""]}`}

// Whatever a request has in its path, query and body, no answer is an internal error.
func TestNoInternalErrors(t *testing.T) {
	onStores(t, api.Config{}, func(t *testing.T, d *door) {
		d = d.with(t)
		d.kill("mail", 1)
		for _, r := range api.Routes() {
			for _, e := range evil {
				path := strings.NewReplacer("{topic}", e, "{id}", e, "{name}", e).Replace(r.Path)
				switch {
				case strings.HasSuffix(path, "/events"):
				case r.Method == http.MethodGet:
					for _, q := range evilQueries {
						d.survives(r.Method, path+"?"+q+strings.Repeat(e, min(len(q), 1)), "")
					}
				default:
					for _, body := range evilBodies {
						d.survives(r.Method, path, body)
					}
				}
			}
		}
	})
}

func (d *door) survives(method, path, body string) {
	d.t.Helper()
	if a := d.ask(method, path, body); a.status >= 500 {
		d.t.Errorf("%s %s %s: %s", method, path, body, a)
	}
}
